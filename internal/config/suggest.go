package config

import "strings"

// nearest gives the known key that a mistyped one most likely meant, "" when none is close. Case
// and separators count for nothing: known_hosts means knownHosts.
func nearest(typed string, known []string) string {
	best, least := "", 3 // three edits away is another word
	for _, k := range known {
		if d := distance(fold(typed), fold(k)); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance is the number of letters to insert, delete or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
