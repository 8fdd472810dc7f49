package engine_test

import (
	"context"
	"fmt"

	"github.com/kuberung/kuberung/engine"
)

// Two lights are switched on, one after the other. One of them is on already.
func Example() {
	lights := map[string]bool{"kitchen": true}
	on := func(room string) engine.Step[map[string]bool] {
		return engine.Step[map[string]bool]{
			Name: "switch-on", Does: "switch the light on",
			Needs: func(seen map[string]bool) string {
				if seen[room] {
					return ""
				}
				return "it is dark"
			},
			Run: func(context.Context, map[string]bool, engine.Logf) error {
				lights[room] = true
				return nil
			},
		}
	}
	plan := engine.Plan[map[string]bool]{{Name: "lights", Width: 1, Lanes: []engine.Lane[map[string]bool]{
		{Target: "kitchen", Work: []engine.Step[map[string]bool]{on("kitchen")}},
		{Target: "hall", Work: []engine.Step[map[string]bool]{on("hall")}},
	}}}

	for _, stage := range plan.Outline(lights).Stages {
		fmt.Println("planned:", stage.Name, stage.Lanes)
	}
	err := engine.Run(context.Background(), plan, engine.Options[map[string]bool]{
		Observe: func(context.Context, string) (map[string]bool, error) { return lights, nil },
		Emit:    func(e engine.Event) { fmt.Printf("%s/%s/%s: %s %q\n", e.Stage, e.Target, e.Step, e.Kind, e.Text) },
	})
	fmt.Println(err)
	// Output:
	// planned: lights [{hall [{switch-on switch the light on it is dark}]}]
	// lights//: started ""
	// lights/kitchen/: skipped ""
	// lights/hall/: started ""
	// lights/hall/switch-on: started "it is dark"
	// lights/hall/switch-on: done ""
	// lights/hall/: done ""
	// lights//: done ""
	// <nil>
}
