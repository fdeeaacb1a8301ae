package ssm_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ssm"
	"github.com/coracle-eks/coracle/internal/store"
)

func newStack(t *testing.T) *resourcetest.Stack {
	t.Helper()
	return resourcetest.New(t, ssm.Types, func(mux *wire.Mux, s *store.Store) {
		service.New(service.Options{Store: s}).Register(mux)
	})
}

func lives() map[string]resourcetest.Life {
	return map[string]resourcetest.Life{
		"generated name": {
			Type: "AWS::SSM::Parameter", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"Type": "String", "Value": "a", "Description": "letters", "AllowedPattern": "[a-z]*",
				"Tags": {"k": "v"}}`,
			Updates: []string{
				`{"Value": "b", "Description": null, "Tags": {"k": "w"}}`,
				`{"Value": "1", "AllowedPattern": null, "Tags": null}`,
			},
			Attributes: map[string]string{
				"Type": "String", "Value": "a",
				"Arn": "arn:aws:ssm:" + awstest.Region + ":" + awstest.Account + ":parameter/lake-own-1a2b3c",
			},
		},
		"name of its own": {
			Type: "AWS::SSM::Parameter", Taken: true, Ref: "/eks/Own",
			Properties: `{"Name": "/eks/Own", "Type": "StringList", "Value": "a,b", "Tier": "Advanced",
				"DataType": "text"}`,
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, ssm.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::SSM::Parameter": {"Policies"}, // of which only none are served
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newStack(t).Run(life)
		})
	}
}

func TestSecureString(t *testing.T) {
	t.Parallel()
	r := newStack(t).Request("Own", `{"Type": "SecureString", "Value": "a"}`)
	_, err := ssm.Types["AWS::SSM::Parameter"].Create(t.Context(), r)
	if resource.Classify(err) != resource.InvalidRequest {
		t.Errorf("got %v", err)
	}
}
