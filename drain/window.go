package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// WindowAnnotation on a Node says that kuberung opened a window on it and what it must put back.
const WindowAnnotation = "kuberung.io/window"

// Values of WindowAnnotation.
const (
	Cordoned      = "cordoned"       // the node was schedulable: uncordon it when the window closes
	FoundCordoned = "found-cordoned" // somebody else had cordoned it: leave it so
)

// Cordon opens a window: it writes down what it found, then cordons the node. If it dies between the two, the next call
// finishes the work with the first finding. It may be called on an open window.
func Cordon(ctx context.Context, client kubernetes.Interface, node string) error {
	err := persist(ctx, DefaultRetryDelay, func(ctx context.Context) error {
		found, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want, err := windowOf(found)
		if err != nil {
			return err
		}
		if want != found.Annotations[WindowAnnotation] {
			if found, err = annotate(ctx, client, found, &want); err != nil {
				return err
			}
		}
		return setSchedulable(ctx, client, found, false)
	})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", node, err)
	}
	return nil
}

// Uncordon closes the window: it uncordons the node if Cordon had cordoned it, then removes the annotation. A node that
// was found cordoned stays cordoned, one without a window is left alone. Released reports whether this window's cordon
// was lifted.
func Uncordon(ctx context.Context, client kubernetes.Interface, node string) (released bool, err error) {
	err = persist(ctx, DefaultRetryDelay, func(ctx context.Context) error {
		found, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch value := found.Annotations[WindowAnnotation]; value {
		case "":
			return nil
		case FoundCordoned:
		case Cordoned:
			if err := setSchedulable(ctx, client, found, true); err != nil {
				return err
			}
			released = true
		default:
			return unknownWindow(value)
		}
		// The annotation goes last: a window that is still written down is found again, a forgotten cordon is not.
		_, err = annotate(ctx, client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, nil)
		return err
	})
	if err != nil {
		return released, fmt.Errorf("uncordon node %s: %w", node, err)
	}
	return released, nil
}

// windowOf returns the annotation that an open window on this node must have. One that is there is kept, but a node that
// is schedulable again although it was found cordoned was released by its owner since: this cordon is then ours.
func windowOf(node *corev1.Node) (string, error) {
	switch value := node.Annotations[WindowAnnotation]; value {
	case Cordoned:
		return Cordoned, nil
	case "", FoundCordoned:
		if node.Spec.Unschedulable {
			return FoundCordoned, nil
		}
		return Cordoned, nil
	default:
		return "", unknownWindow(value)
	}
}

// errUnknownWindow is a value that this version does not write, so it does not know what to put back either.
var errUnknownWindow = errors.New("unknown value")

func unknownWindow(value string) error {
	return fmt.Errorf("annotation %s=%q, remove it if no other kuberung works on this node: %w", WindowAnnotation, value, errUnknownWindow)
}

// annotate sets WindowAnnotation in one patch, or removes it if value is nil. Where the node carries a resource version
// the patch holds only for that one: a cordon by somebody else between our read and our write must not become ours.
func annotate(ctx context.Context, client kubernetes.Interface, node *corev1.Node, value *string) (*corev1.Node, error) {
	meta := map[string]any{"annotations": map[string]*string{WindowAnnotation: value}}
	if node.ResourceVersion != "" {
		meta["resourceVersion"] = node.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
