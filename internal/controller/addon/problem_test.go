package addon

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A webhook answers with whatever causes it likes, which say nothing of who owns a field.
func TestConflictsOfWebhooksAreNone(t *testing.T) {
	t.Parallel()
	causes := []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec", Message: "conflict"}}
	conflict := func(message string) error {
		err := apierrors.NewApplyConflict(causes, message)
		return fmt.Errorf("apply: %w", err)
	}
	if got := conflictsOf(conflict("Apply failed with 1 conflict")); len(got) != 1 {
		t.Errorf("of a conflict: %v", got)
	}
	if got := conflictsOf(conflict(`admission webhook "x.example.com" denied the request: no`)); got != nil {
		t.Errorf("of a webhook: %v", got)
	}
}
