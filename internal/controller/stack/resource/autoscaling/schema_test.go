package autoscaling_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
)

func TestTypesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	// Accounts made since October 2024 have no launch configurations.
	resourcetest.CheckTypes(t, autoscaling.Types, "AWS::AutoScaling::", "AWS::AutoScaling::LaunchConfiguration")
}
