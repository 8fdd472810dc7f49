package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

// StageFiles uploads the programs of the target to a host, verified there. Nothing is installed.
func StageFiles(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "stage-files",
		Does:  "upload the programs and verify them there",
		Needs: func(f Facts) string { return needsStaging(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			ctx, cancel := context.WithTimeout(ctx, s.Cluster.Timeouts.Stage)
			defer cancel()
			h := f.Hosts[host]
			for _, a := range staging(f, h) {
				if a.Images != nil || h.Staged[a.stagedAt(f.Target)] {
					continue
				}
				if err := s.host(host).Upload(ctx, a.Path, a.stagedAt(f.Target), 0o755, a.SHA256, nil); err != nil {
					return fmt.Errorf("upload %s: %w", a.Name, err)
				}
				log("%s uploaded (%s)", a.Name, mebibytes(a.Size))
			}
			return nil
		},
	}
}

// ImportImages brings the images of the target into a host's container runtime.
func ImportImages(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "import-images",
		Does:  "bring the images of the target into the container runtime",
		Needs: func(f Facts) string { return needsImages(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			ctx, cancel := context.WithTimeout(ctx, s.Cluster.Timeouts.Stage)
			defer cancel()
			missing, _ := missingImages(f, f.Hosts[host])
			for _, a := range missing {
				if err := s.importImage(ctx, f, host, a); err != nil {
					return fmt.Errorf("import %s: %w", a.Name, err)
				}
				log("%s imported (%s)", a.Name, mebibytes(a.Size))
			}
			return nil
		},
	}
}

// importImage uploads one archive, imports it and removes it again: an image needs no second place.
func (s *Session) importImage(ctx context.Context, f Facts, host string, a Artifact) error {
	h := s.host(host)
	at := a.stagedAt(f.Target)
	if err := h.Upload(ctx, a.Path, at, 0o644, a.SHA256, nil); err != nil {
		return err
	}
	_, err := h.Script(ctx, hosts.Script{
		Text: `ctr -n k8s.io images import "$1" >/dev/null && rm -f "$1"`,
		Args: []string{at}, Sudo: true, Timeout: 10 * time.Minute,
	})
	return err
}

// RemoveStaged frees the room that staged files took; nothing needs them once the node has arrived.
func RemoveStaged(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "remove-staged",
		Does: "remove the staged files from the host",
		Run: func(ctx context.Context, _ Facts, _ engine.Logf) error {
			_, err := s.host(host).Run(ctx, hosts.Cmd{Argv: []string{"rm", "-rf", stageDir}, Sudo: true})
			return err
		},
	}
}
