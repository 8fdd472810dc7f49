package engine

// Outline is a plan as data: what would run and why, for people and for machines.
type Outline struct {
	Stages []OutlineStage `json:"stages"`
}

// OutlineStage is a stage of an Outline.
type OutlineStage struct {
	Name  string        `json:"name"`
	Width int           `json:"width"`
	Lanes []OutlineLane `json:"lanes"`
}

// OutlineLane is a lane of an Outline.
type OutlineLane struct {
	Target string        `json:"target"`
	Steps  []OutlineStep `json:"steps"`
}

// OutlineStep is a step of an Outline. Why is empty for gates and actions, which always run.
type OutlineStep struct {
	Name string `json:"name"`
	Does string `json:"does"`
	Why  string `json:"why,omitempty"`
}

// Outline lists what the plan would run with facts f. It runs nothing.
func (p Plan[F]) Outline(f F) Outline {
	out := Outline{Stages: []OutlineStage{}}
	for _, stage := range p.Prune(f) {
		s := OutlineStage{Name: stage.Name, Width: stage.Width}
		for _, lane := range stage.Lanes {
			l := OutlineLane{Target: lane.Target}
			for _, step := range lane.Steps(f) {
				why, _ := step.due(f)
				l.Steps = append(l.Steps, OutlineStep{Name: step.Name, Does: step.Does, Why: why})
			}
			s.Lanes = append(s.Lanes, l)
		}
		out.Stages = append(out.Stages, s)
	}
	return out
}
