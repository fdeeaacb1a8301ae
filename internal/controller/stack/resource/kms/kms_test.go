package kms_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/kms"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/store"
)

func newStack(t *testing.T) *resourcetest.Stack {
	t.Helper()
	w := resourcetest.New(t, kms.Types, func(mux *wire.Mux, s *store.Store) {
		service.New(service.Options{Store: s}).Register(mux)
	})
	all := w.Keys
	w.Keys = func() []string {
		return slices.DeleteFunc(all(), func(key string) bool {
			return strings.HasPrefix(key, "kmskey") // a key that is deleted is there until its waiting period ends
		})
	}
	return w
}

func lives() map[string]resourcetest.Life {
	policy := func(sid string) string {
		return `{"Version": "2012-10-17", "Statement": [{"Sid": "` + sid + `", "Effect": "Allow", "Action": "kms:*",
			"Resource": "*", "Principal": {"AWS": "` + awstest.RootARN + `"}}]}`
	}
	return map[string]resourcetest.Life{
		"key": {
			Type: "AWS::KMS::Key",
			Properties: `{"Description": "secrets", "EnableKeyRotation": true, "RotationPeriodInDays": 180,
				"PendingWindowInDays": 7, "KeyPolicy": ` + policy("a") + `, "Tags": [{"Key": "a", "Value": "b"}]}`,
			Hidden: []string{"PendingWindowInDays", "BypassPolicyLockoutSafetyCheck"},
			Updates: []string{
				`{"Enabled": false, "RotationPeriodInDays": null, "EnableKeyRotation": null}`,
				`{"Enabled": true, "EnableKeyRotation": true, "RotationPeriodInDays": 90, "Description": null}`,
				`{"KeyPolicy": ` + policy("b") + `, "BypassPolicyLockoutSafetyCheck": true, "Tags": null}`,
				`{"KeyPolicy": null, "PendingWindowInDays": null}`,
			},
			Attributes: map[string]string{"Arn": "arn:aws:kms:" + awstest.Region + ":" + awstest.Account + ":key/*"},
		},
		"alias": {
			Type: "AWS::KMS::Alias", Taken: true, Ref: "alias/Own",
			Properties: `{"AliasName": "alias/Own", "TargetKeyId": "$first"}`,
			Updates:    []string{`{"TargetKeyId": "$second"}`},
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, kms.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::KMS::Key": {"KeySpec", "KeyUsage", "MultiRegion", "Origin"}, // of which one value is served
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStack(t)
			for _, logicalID := range []string{"first", "second"} {
				r := w.Request(logicalID, `{}`)
				w.Create("AWS::KMS::Key", r)
				life.Properties = strings.ReplaceAll(life.Properties, "$"+logicalID, r.PhysicalID)
				for i := range life.Updates {
					life.Updates[i] = strings.ReplaceAll(life.Updates[i], "$"+logicalID, r.PhysicalID)
				}
			}
			w.Run(life)
		})
	}
}

// A key has neither a name nor a client token: what a lost answer has made is found by its tags.
func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newStack(t)
	r := w.Request("Key", `{}`)
	handler := kms.Types["AWS::KMS::Key"]
	first := awstest.Must[resource.Result](t)(handler.Create(t.Context(), r))
	r.Retried = true
	if second := awstest.Must[resource.Result](t)(handler.Create(t.Context(), r)); second.PhysicalID != first.PhysicalID {
		t.Errorf("made %s, and then %s", first.PhysicalID, second.PhysicalID)
	}
	r.Replaced = []string{first.PhysicalID} // by the one that is wanted now
	if second := awstest.Must[resource.Result](t)(handler.Create(t.Context(), r)); second.PhysicalID == first.PhysicalID {
		t.Error("took the key that is replaced")
	}
}
