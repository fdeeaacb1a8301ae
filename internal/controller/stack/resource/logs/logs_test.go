package logs_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/logs"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/store"
)

func newStack(t *testing.T) *resourcetest.Stack {
	t.Helper()
	return resourcetest.New(t, logs.Types, func(mux *wire.Mux, s *store.Store) {
		all, err := events.Open(t.TempDir(), events.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := all.Close(); err != nil {
				t.Errorf("close the store of log events: %v", err)
			}
		})
		service.New(service.Options{Store: s, Events: all}).Register(mux)
	})
}

func lives() map[string]resourcetest.Life {
	return map[string]resourcetest.Life{
		"log group": {
			Type: "AWS::Logs::LogGroup", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"RetentionInDays": 7, "LogGroupClass": "STANDARD", "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"RetentionInDays": "14", "DeletionProtectionEnabled": true}`,
				`{"RetentionInDays": null, "DeletionProtectionEnabled": null, "Tags": null}`,
			},
			Attributes: map[string]string{
				"Arn": "arn:aws:logs:" + awstest.Region + ":" + awstest.Account + ":log-group:lake-own-1a2b3c:*",
			},
		},
		"log group with a name of its own": {
			Type: "AWS::Logs::LogGroup", Taken: true, Ref: "/aws/Own", Properties: `{"LogGroupName": "/aws/Own"}`,
		},
		"query definition": {
			Type: "AWS::Logs::QueryDefinition", Unfindable: true,
			Properties: `{"Name": "errors", "QueryString": "fields @message", "LogGroupNames": ["a"],
				"QueryLanguage": "CWLI", "Parameters": [{"Name": "n", "DefaultValue": "1"}]}`,
			Updates: []string{
				`{"Name": "all", "QueryString": "fields @timestamp"}`,
				`{"LogGroupNames": null, "Parameters": null, "QueryLanguage": null}`,
			},
		},
		"log stream": {
			Type: "AWS::Logs::LogStream", Ref: "lake-own-1a2b3c", Properties: `{"LogGroupName": "lake-group-1a2b3c"}`,
		},
		"log stream with a name of its own": {
			Type: "AWS::Logs::LogStream", Ref: "Own", Taken: true,
			Properties: `{"LogGroupName": "lake-group-1a2b3c", "LogStreamName": "Own"}`,
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, logs.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::Logs::LogGroup": {"KmsKeyId", "LogGroupClass"}, // AWS changes no class, either
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStack(t)
			w.Create("AWS::Logs::LogGroup", w.Request("Group", `{}`))
			w.Run(life)
		})
	}
}
