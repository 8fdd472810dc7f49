package etcdbackup

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const (
	maxLag   = 1000 // raft entries that a member may be behind
	maxUsage = 80   // percent of the quota
)

// Problems returns everything that speaks against taking a member away: silent or lagging members, no or different
// leaders, split views, learners, alarms, a full database, a downgrade in progress, members that nobody asked. Program
// versions may differ, they do while members are upgraded. Empty means all endpoints are members and well.
func Problems(all []Status) []string {
	if len(all) == 0 {
		return []string{"no etcd endpoint was asked"}
	}
	var problems []string
	var answered []Status
	for _, s := range all {
		problems = append(problems, s.problems(all)...)
		if s.ID != 0 {
			answered = append(answered, s)
		}
	}
	problems = append(problems, differences(answered)...)
	return append(problems, strangers(all)...)
}

// problems judges one member's answer; all gives the index to compare with.
func (s Status) problems(all []Status) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, s.Endpoint.String()+": "+fmt.Sprintf(format, args...))
	}
	if s.Err != nil {
		report("%v", s.Err)
	}
	if s.ID == 0 {
		if s.Err == nil {
			report("was not asked")
		}
		return problems
	}
	if s.Leader == 0 {
		report("knows no leader")
	}
	if s.Learner {
		report("is a learner and does not vote")
	}
	if s.Downgrading {
		report("a downgrade of the cluster is enabled")
	}
	for _, e := range s.Errors {
		report("reports %q", e)
	}
	for _, alarm := range s.Alarms {
		report("alarm %s of member %x", alarm.Type, alarm.MemberID)
	}
	if lag := s.lag(all); lag > maxLag {
		report("is %d raft entries behind", lag)
	}
	if s.Quota > 0 && s.DBSize > s.Quota/100*maxUsage {
		report("database has %d of %d bytes allowed, more than %d %%", s.DBSize, s.Quota, maxUsage)
	}
	return problems
}

// lag is how far the member is behind the highest index anyone committed.
func (s Status) lag(all []Status) uint64 {
	highest := s.Applied
	for _, other := range all {
		highest = max(highest, other.Index)
	}
	return highest - s.Applied
}

// differences compares what all members of one cluster must agree on.
func differences(answered []Status) []string {
	rows := []struct {
		what  string
		value func(Status) string
	}{
		{"cluster ids", func(s Status) string { return hexOrNone(s.ClusterID) }},
		{"leaders", func(s Status) string { return hexOrNone(s.Leader) }},
		{"raft terms", func(s Status) string { return fmt.Sprint(s.Term) }},
		{"storage versions", func(s Status) string { return s.StorageVersion }},
		{"member lists", viewOf},
	}
	var problems []string
	for _, row := range rows {
		if difference := differ(answered, row.value); difference != "" {
			problems = append(problems, row.what+" differ: "+difference)
		}
	}
	return append(problems, twice(answered)...)
}

// differ returns who says what if not all say the same. Nothing said (an old version, a learner) differs from nothing.
func differ(answered []Status, value func(Status) string) string {
	var said []string
	values := make(map[string]bool)
	for _, s := range answered {
		if v := value(s); v != "" {
			values[v] = true
			said = append(said, s.Name+" says "+v)
		}
	}
	if len(values) < 2 {
		return ""
	}
	return strings.Join(said, ", ")
}

// viewOf writes a member list down so that two can be compared and told apart by a person.
func viewOf(s Status) string {
	rows := make([]string, len(s.Members))
	for i, m := range s.Members {
		rows[i] = fmt.Sprintf("%s=%x peer %s client %s", m.Name, m.ID, strings.Join(m.PeerURLs, "+"), strings.Join(m.ClientURLs, "+"))
		if m.Learner {
			rows[i] += " learner"
		}
	}
	return strings.Join(rows, " | ")
}

func hexOrNone(id uint64) string {
	if id == 0 {
		return "none"
	}
	return fmt.Sprintf("%x", id)
}

// twice finds two endpoints answered by one member: then another was never asked.
func twice(answered []Status) []string {
	var problems []string
	first := make(map[uint64]Status)
	for _, s := range answered {
		if other, ok := first[s.ID]; ok {
			problems = append(problems, fmt.Sprintf("%s and %s are the same member %x", other.Endpoint, s.Endpoint, s.ID))
			continue
		}
		first[s.ID] = s
	}
	return problems
}

// strangers finds members in the lists that no endpoint stands for, and endpoints that no list holds.
func strangers(all []Status) []string {
	listed := make(map[uint64]Member)
	for _, s := range all {
		for _, m := range s.Members {
			listed[m.ID] = m
		}
	}
	var problems []string
	for _, id := range sortedKeys(listed) {
		m := listed[id]
		switch {
		case slices.ContainsFunc(all, func(s Status) bool { return s.is(m) }):
		case m.Name == "":
			problems = append(problems, fmt.Sprintf("member %x (peer %s) was added and never started", id, strings.Join(m.PeerURLs, ", ")))
		default:
			problems = append(problems, fmt.Sprintf("member %s (%x) is in the member list and was not asked", m.Name, id))
		}
	}
	for _, s := range all {
		if _, ok := listed[s.ID]; len(listed) > 0 && s.ID != 0 && !ok {
			problems = append(problems, fmt.Sprintf("%s: member %x is in no member list", s.Endpoint, s.ID))
		}
	}
	return problems
}

// is reports whether this endpoint stands for the member: by its ID if it answered, else by name or client address.
func (s Status) is(m Member) bool {
	if s.ID != 0 {
		return s.ID == m.ID
	}
	return s.Name == m.Name || slices.ContainsFunc(m.ClientURLs, func(raw string) bool {
		u, err := url.Parse(raw)
		return err == nil && u.Host == s.Address
	})
}

func sortedKeys(m map[uint64]Member) []uint64 {
	keys := make([]uint64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
