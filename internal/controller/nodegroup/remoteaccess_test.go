package nodegroup

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Somebody may have made a security group of the name, which lets in more: it is told from the one that EKS has made.
func TestSSHPermissionsAreTold(t *testing.T) {
	t.Parallel()
	everywhere, two := sshPermission(nil), sshPermission([]string{"sg-1", "sg-2"})
	turned := sshPermission([]string{"sg-2", "sg-1"})
	turned.UserIdGroupPairs[0].Description = nil
	if !isSamePermission(everywhere, sshPermission(nil)) || !isSamePermission(two, turned) {
		t.Error("the same permissions are told apart")
	}
	wide := sshPermission(nil)
	wide.FromPort = aws.Int32(0)
	more := sshPermission(nil)
	more.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: aws.String("::/0")}}
	for name, p := range map[string]ec2types.IpPermission{"more ports": wide, "more addresses": more, "groups": two,
		"nothing": {}} {
		if isSamePermission(everywhere, p) {
			t.Errorf("%s are taken for SSH from everywhere", name)
		}
	}
}
