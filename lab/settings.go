package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// settings is what the environment says about the lab to work on.
type settings struct {
	Cache cache
	State string // folder of the running lab's key, known hosts, kubeconfig, cluster file and logs
	Shape shape
	From  release // what the cluster is brought up with
	To    release // what the cluster file asks for
}

// readSettings reads
//
//	LAB                  small (default) or ha
//	FROM, TO             v1.35.4 and v1.36.3 by default
//	KUBERUNG_LAB_CACHE   default $XDG_CACHE_HOME/kuberung-lab, or ~/.cache/kuberung-lab
//	KUBERUNG_LAB_STATE   default lab/<shape> in the cache
//
// through getenv and fails on a value that does not exist.
func readSettings(getenv func(string) string) (settings, error) {
	or := func(name, fallback string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return fallback
	}
	var s settings
	var err error
	if s.Shape, err = findShape(or("LAB", "small")); err != nil {
		return s, fmt.Errorf("LAB: %w", err)
	}
	if s.From, err = findRelease(or("FROM", "v1.35.4")); err != nil {
		return s, fmt.Errorf("FROM: %w", err)
	}
	if s.To, err = findRelease(or("TO", "v1.36.3")); err != nil {
		return s, fmt.Errorf("TO: %w", err)
	}
	s.Cache.dir = getenv("KUBERUNG_LAB_CACHE")
	if s.Cache.dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return s, fmt.Errorf("no KUBERUNG_LAB_CACHE: %w", err)
		}
		s.Cache.dir = filepath.Join(base, "kuberung-lab")
	}
	if s.Cache.dir, err = filepath.Abs(s.Cache.dir); err != nil {
		return s, err
	}
	s.State, err = filepath.Abs(or("KUBERUNG_LAB_STATE", filepath.Join(s.Cache.dir, "lab", s.Shape.Name)))
	return s, err
}
