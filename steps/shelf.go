package steps

import (
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// releases are the versions that a rung may lead to: the target, and what the artifacts directory has of the minors
// below it. What runs of kubeadm to any of them have left on the hosts is looked for.
func (s *Session) releases() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = []string{s.Cluster.Target}
		for _, v := range releasesIn(s.Cluster.Artifacts) {
			if onTheWay(v, s.Cluster.Target) {
				s.versions = append(s.versions, v)
			}
		}
	}
	return s.versions
}

// maxClimb is how many minors below the target are looked at: kubelets further behind are beyond the policy anyway.
const maxClimb = maxSkew + 1

func onTheWay(v, target string) bool {
	is, okIs := minorOf(v)
	to, okTo := minorOf(target)
	return okIs && okTo && is < to && is >= to-maxClimb
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
