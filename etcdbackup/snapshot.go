package etcdbackup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Snapshot describes a verified snapshot file. Save writes it next to the file, as path + ".json".
type Snapshot struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`      // bytes, with the digest at the end
	SHA256    string `json:"sha256"`    // of the whole file, as sha256sum prints it
	Revision  int64  `json:"revision"`  // of the key space in it
	TotalKeys int    `json:"totalKeys"` // living keys in it

	// StorageVersion is the etcd version to restore with, empty before etcd 3.6.
	StorageVersion string `json:"storageVersion,omitempty"`

	// What Save knew of the member it came from. Verify takes it from the ".json" file, if there is one.
	Endpoint      Endpoint  `json:"endpoint,omitzero"`
	MemberID      uint64    `json:"memberID,omitempty,string"`
	ClusterID     uint64    `json:"clusterID,omitempty,string"`
	MemberVersion string    `json:"memberVersion,omitempty"`
	Members       []Member  `json:"members,omitempty"`
	Taken         time.Time `json:"taken,omitzero"`
}

// sidecar is where the description of a snapshot is kept.
func sidecar(path string) string { return path + ".json" }

// readSidecar returns the description next to a snapshot, and false if there is none.
func readSidecar(path string) (Snapshot, bool, error) {
	data, err := os.ReadFile(sidecar(path))
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, false, nil
	}
	if err != nil {
		return Snapshot{}, false, err
	}
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return Snapshot{}, false, fmt.Errorf("%s: %w", sidecar(path), err)
	}
	return s, true, nil
}
