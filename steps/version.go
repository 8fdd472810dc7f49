package steps

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// older reports whether version a is before b. Something that is no version is older than nothing.
func older(a, b string) bool {
	x, errA := version.ParseSemantic(a)
	y, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && x.LessThan(y)
}

// minorOf gives the minor of "v1.36.3", and false when it is no version.
func minorOf(v string) (int, bool) {
	p, err := version.ParseSemantic(v)
	if err != nil {
		return 0, false
	}
	return int(p.Minor()), true
}

// tagOf gives the tag of an image reference, without a digest: "v1.36.3".
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndex(image, "/")
	if colon := strings.LastIndex(image, ":"); colon > slash {
		return image[colon+1:]
	}
	return ""
}

// repositoryOf gives the last path element of an image reference: "kube-apiserver".
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = strings.TrimSuffix(image, ":"+tagOf(image))
	return image[strings.LastIndex(image, "/")+1:]
}

var inText = regexp.MustCompile(`v?[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*`)

// versionIn finds the version in what a program prints of itself, with a leading v, or "".
func versionIn(text string) string {
	v := inText.FindString(text)
	if v == "" {
		return ""
	}
	return "v" + strings.TrimPrefix(v, "v")
}
