package etcdbackup_test

import (
	"fmt"

	"github.com/kuberung/kuberung/etcdbackup"
)

// Problems judges what Observe brought; here one member of two knows no leader.
func ExampleProblems() {
	members := []etcdbackup.Member{
		{ID: 1, Name: "cp-0", ClientURLs: []string{"https://10.0.0.1:2379"}},
		{ID: 2, Name: "cp-1", ClientURLs: []string{"https://10.0.0.2:2379"}},
	}
	all := []etcdbackup.Status{
		{Endpoint: etcdbackup.Endpoint{Name: "cp-0", Address: "10.0.0.1:2379"}, ID: 1, ClusterID: 7, Members: members},
		{Endpoint: etcdbackup.Endpoint{Name: "cp-1", Address: "10.0.0.2:2379"}, Err: fmt.Errorf("status: connection refused")},
	}
	for _, problem := range etcdbackup.Problems(all) {
		fmt.Println(problem)
	}
	// Output:
	// cp-0 (10.0.0.1:2379): knows no leader
	// cp-1 (10.0.0.2:2379): status: connection refused
}
