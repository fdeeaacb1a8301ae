package stack_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource/iam"
)

// The secret of an access key is told once, and a stack still has it after an update of the key.
func TestAttributesOutliveUpdates(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	maps.Copy(w.types, iam.Types)
	const body = `{"Resources": {"User": {"Type": "AWS::IAM::User"}, "Key": {"Type": "AWS::IAM::AccessKey",
		"Properties": {"UserName": {"Ref": "User"}, "Status": "Active"}}},
		"Outputs": {"Secret": {"Value": {"Fn::GetAtt": ["Key", "SecretAccessKey"]}}}}`
	capabilities := []types.Capability{types.CapabilityCapabilityIam}
	w.create("keys", body, func(in *cloudformation.CreateStackInput) { in.Capabilities = capabilities })
	secret := func(want types.StackStatus) string {
		t.Helper()
		outputs := w.await("keys", want).Outputs
		if len(outputs) != 1 {
			t.Fatalf("got outputs %v", outputs)
		}
		return aws.ToString(outputs[0].OutputValue)
	}
	before := secret(types.StackStatusCreateComplete)
	w.update("keys", strings.ReplaceAll(body, `"Active"`, `"Inactive"`), func(in *cloudformation.UpdateStackInput) {
		in.Capabilities = capabilities
	})
	if after := secret(types.StackStatusUpdateComplete); before == "" || after != before {
		t.Errorf("the secret is %q, and after an update %q", before, after)
	}
	w.delete("keys")
}
