package ec2_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
)

func TestTypesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	// EC2 serves no operations for these.
	resourcetest.CheckTypes(t, ec2.Types, "AWS::EC2::", "AWS::EC2::VPCPeeringConnection")
}
