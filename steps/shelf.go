package steps

import (
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kuberung/kuberung/internal/config"
)

// releases are the versions that a rung may lead to: the target, and what the artifacts directory has of the minors
// below it. What runs of kubeadm to any of them have left on the hosts is looked for.
func (s *Session) releases() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = []string{s.Cluster.Target}
		for _, v := range releasesIn(s.Cluster.Artifacts) {
			is, okIs := minorOf(v)
			if to, okTo := minorOf(s.Cluster.Target); okIs && okTo && is < to {
				s.versions = append(s.versions, v)
			}
		}
	}
	return s.versions
}

// releasesIn lists the directories that are named like a release, newest first. A directory that cannot be read holds
// none: its problem is told with the target's artifacts.
func releasesIn(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		v, err := version.ParseSemantic(e.Name())
		if err == nil && v.PreRelease() == "" && "v"+v.String() == e.Name() {
			found = append(found, e.Name())
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		if older(a, b) {
			return 1
		}
		return -1
	})
	return found
}

// loadArtifacts reads and verifies the artifacts of a version, once a session.
func (s *Session) loadArtifacts(version string) Artifacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.artifacts == nil {
		s.artifacts = map[string]Artifacts{}
	}
	a, loaded := s.artifacts[version]
	if !loaded {
		a = LoadArtifacts(s.Cluster.Artifacts, version)
		s.artifacts[version] = a
	}
	return a
}

// loadShelf reads what there is for each rung but the last. Files are hashed whole, so of each minor no more is read
// than decides which version the rung has.
func (s *Session) loadShelf(f Facts) []Artifacts {
	f.Shelf = []Artifacts{f.Artifacts}
	minors, _ := minorsBelow(s.Cluster, f)
	for _, minor := range minors {
		begun := newestOf(pieces(s.Cluster, f), minor)
		for _, v := range candidates(s.releases(), minor, begun) {
			f.Shelf = append(f.Shelf, s.loadArtifacts(v))
			if pick(s.Cluster, f, minor) != "" {
				break
			}
		}
	}
	return f.Shelf
}

// candidates gives the releases of a minor that are not older than what was begun: that one first, then newest first.
func candidates(releases []string, minor int, begun string) []string {
	var found []string
	for _, v := range releases {
		m, ok := minorOf(v)
		switch {
		case !ok || m != minor || older(v, begun):
		case v == begun:
			found = append([]string{v}, found...)
		default:
			found = append(found, v)
		}
	}
	return found
}

// pick chooses the version of a rung on the way: what was begun in this minor, if it is still there, else the newest
// that is there whole and is not older.
func pick(c *config.Cluster, f Facts, minor int) string {
	begun, best := newestOf(pieces(c, f), minor), ""
	for _, a := range f.Shelf {
		if m, ok := minorOf(a.Version); !ok || m != minor || older(a.Version, begun) || len(lacking(c, f, a)) > 0 {
			continue
		}
		if a.Version == begun {
			return begun
		}
		if best == "" || older(best, a.Version) {
			best = a.Version
		}
	}
	return best
}

// newestOf gives the newest of the versions that are of a minor; "" if there is none.
func newestOf(versions []string, minor int) string {
	newest := ""
	for _, v := range versions {
		if m, ok := minorOf(v); ok && m == minor && (newest == "" || older(newest, v)) {
			newest = v
		}
	}
	return newest
}

// artifactsOf gives what there is to install for a version.
func (f Facts) artifactsOf(version string) Artifacts {
	if f.Target == version {
		return f.Artifacts
	}
	for _, a := range f.Shelf {
		if a.Version == version {
			return a
		}
	}
	return Artifacts{Version: version, Problems: []string{"there is nothing of " + version}}
}
