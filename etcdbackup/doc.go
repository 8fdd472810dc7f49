// Package etcdbackup watches over the etcd of a cluster: how its members are, and a verified copy of its data.
//
// Observe asks each member by its own connection and keeps what it said, or why it said nothing; Problems judges the
// answers. MoveLeader hands leadership on before a member is restarted. Save writes a snapshot that has been proven
// before it gets its name: the digest that etcd sends, the pages of the database, the revision, and a restore into a
// directory of its own. Verify repeats the proof offline.
//
// A snapshot under its final name is complete. What a failed or interrupted Save leaves behind ends in ".part" or
// ".restore" and is removed by the next Save to the same path. Snapshots hold every Secret of the cluster: files are
// readable by their owner only. Nothing here changes the data or the members of etcd.
package etcdbackup
