package logs_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/logs"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
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
		for kind, name := range map[string]string{record.ApplicationLoadBalancer: "one", record.NetworkLoadBalancer: "two"} {
			b := record.LoadBalancer{Account: awstest.Account, Region: awstest.Region, Kind: kind, Name: name, ID: "1"}
			if _, err := record.LoadBalancers(s).Create(t.Context(), b.Key(), b); err != nil {
				t.Fatal(err)
			}
		}
		service.New(service.Options{Store: s, Events: all}).Register(mux)
	})
}

// policy is a resource policy.
const policy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", ` +
	`"Principal": {"Service": "es.amazonaws.com"}, "Action": "logs:PutLogEvents", "Resource": "*"}]}`

func arn(resource string) string {
	return "arn:aws:logs:" + awstest.Region + ":" + awstest.Account + ":" + resource
}

// balancer returns the ARN of a load balancer that there is.
func balancer(kind, name string) string {
	return record.LoadBalancingARN(awstest.Account, awstest.Region, "loadbalancer/"+kind+"/"+name+"/1")
}

func lives() map[string]resourcetest.Life {
	return map[string]resourcetest.Life{
		"log group": {
			Type: "AWS::Logs::LogGroup", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"RetentionInDays": 7, "LogGroupClass": "STANDARD", "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"RetentionInDays": "14", "DeletionProtectionEnabled": true, "ResourcePolicyDocument": ` + policy + `}`,
				`{"ResourcePolicyDocument": ` + strings.Replace(policy, "es.", "delivery.logs.", 1) + `}`,
				`{"RetentionInDays": null, "DeletionProtectionEnabled": null, "Tags": null, "ResourcePolicyDocument": null}`,
			},
			Attributes: map[string]string{
				"Arn": "arn:aws:logs:" + awstest.Region + ":" + awstest.Account + ":log-group:lake-own-1a2b3c:*",
			},
		},
		"resource policy": {
			Type: "AWS::Logs::ResourcePolicy", Taken: true, Ref: "Own",
			Properties: `{"PolicyName": "Own", "PolicyDocument": ` + strconv.Quote(policy) + `}`,
			Updates:    []string{`{"PolicyDocument": ` + strings.Replace(policy, "es.", "route53.", 1) + `}`},
		},
		"delivery source": {
			Type: "AWS::Logs::DeliverySource", Taken: true, Ref: "Own", Absent: []string{"StatusReason"},
			Properties: `{"Name": "Own", "LogType": "ALB_ACCESS_LOGS", "ResourceArn": "` + balancer("app", "one") + `",
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"LogType": "NLB_ACCESS_LOGS", "ResourceArn": "` + balancer("net", "two") + `"}`, `{"Tags": null}`,
			},
			Attributes: map[string]string{
				"Arn": arn("delivery-source:Own"), "Service": "elasticloadbalancing", "Status": "ACTIVE",
				"ResourceArns": `["` + balancer("app", "one") + `"]`,
			},
		},
		"delivery destination": {
			Type: "AWS::Logs::DeliveryDestination", Taken: true, Ref: "Own",
			Properties: `{"Name": "Own", "DeliveryDestinationType": "CWL", "OutputFormat": "plain",
				"DestinationResourceArn": "` + arn("log-group:lake-group-1a2b3c:*") + `"}`,
			Updates:    []string{`{"Tags": [{"Key": "a", "Value": "b"}]}`},
			Attributes: map[string]string{"Arn": arn("delivery-destination:Own")},
		},
		"delivery": {
			Type: "AWS::Logs::Delivery",
			Properties: `{"DeliverySourceName": "made", "DeliveryDestinationArn": "` + arn("delivery-destination:made") + `",
				"FieldDelimiter": ",", "RecordFields": ["time", "elb"], "Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"RecordFields": ["elb"]}`, `{"FieldDelimiter": null, "RecordFields": null, "Tags": null}`,
			},
			Attributes: map[string]string{"Arn": arn("delivery:") + "*", "DeliveryDestinationType": "CWL"},
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
			if life.Type == "AWS::Logs::Delivery" {
				w.Create("AWS::Logs::ResourcePolicy", w.Request("Policy", `{"PolicyName": "made", "PolicyDocument": `+
					strings.NewReplacer("es.", "delivery.logs.", "PutLogEvents", "*").Replace(policy)+`}`))
				w.Create("AWS::Logs::DeliverySource", w.Request("Source", `{"Name": "made", "LogType": "ALB_ACCESS_LOGS",
					"ResourceArn": "`+balancer("app", "one")+`"}`))
				w.Create("AWS::Logs::DeliveryDestination", w.Request("Destination", `{"Name": "made", "OutputFormat": "plain",
					"DestinationResourceArn": "`+arn("log-group:lake-group-1a2b3c")+`"}`))
			}
			w.Run(life)
		})
	}
}

// TestAttributesFollowTheLoadBalancer reads a source whose load balancer is gone.
func TestAttributesFollowTheLoadBalancer(t *testing.T) {
	t.Parallel()
	var balancers store.Table[record.LoadBalancer]
	w := resourcetest.New(t, logs.Types, func(mux *wire.Mux, s *store.Store) {
		balancers = record.LoadBalancers(s)
		service.New(service.Options{Store: s}).Register(mux)
	})
	b := record.LoadBalancer{Account: awstest.Account, Region: awstest.Region, Kind: record.ApplicationLoadBalancer,
		Name: "one", ID: "1"}
	row, err := balancers.Create(t.Context(), b.Key(), b)
	if err != nil {
		t.Fatal(err)
	}
	r := w.Request("Source", `{"Name": "s", "LogType": "ALB_ACCESS_LOGS", "ResourceArn": "`+b.ARN()+`"}`)
	w.Create("AWS::Logs::DeliverySource", r)
	if err := balancers.Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	_, attributes, err := logs.Types["AWS::Logs::DeliverySource"].Read(t.Context(), r)
	if err != nil || attributes["Status"] != "INACTIVE" || attributes["StatusReason"] != "RESOURCE_DELETED" {
		t.Errorf("the attributes are %v, %v", attributes, err)
	}
}

// TestNamesOfOthersAreLeft does not take over what others have made, also after a creation whose answer was lost.
func TestNamesOfOthersAreLeft(t *testing.T) {
	t.Parallel()
	w := newStack(t)
	w.Create("AWS::Logs::LogGroup", w.Request("Group", `{}`))
	for kind, properties := range map[string]string{
		"AWS::Logs::DeliverySource": `{"Name": "x", "LogType": "ALB_ACCESS_LOGS", "ResourceArn": "` +
			balancer("app", "one") + `"}`,
		"AWS::Logs::DeliveryDestination": `{"Name": "x", "DestinationResourceArn": "` +
			arn("log-group:lake-group-1a2b3c") + `"}`,
	} {
		theirs := w.Request("Theirs", properties)
		w.Create(kind, theirs)
		ours := w.Request("Ours", properties)
		result, err := w.Types[kind].Create(t.Context(), ours)
		if resource.Classify(err) != resource.AlreadyExists || result.PhysicalID != "" {
			t.Errorf("%s: got %+v, %v", kind, result, err)
		}
		if _, err := w.Types[kind].Delete(t.Context(), ours); err != nil {
			t.Errorf("%s: delete what was not made: %v", kind, err)
		}
		if _, _, err := w.Types[kind].Read(t.Context(), theirs); err != nil {
			t.Errorf("%s: theirs: %v", kind, err)
		}
	}
}
