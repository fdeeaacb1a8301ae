package ec2_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const stackID = "arn:aws:cloudformation:eu-west-1:111122223333:stack/lake/1f3d"

// fixture is the EC2 API and what a stack finds there.
type fixture struct {
	*ec2test.Fixture
	config aws.Config
	names  map[string]string // what $name in properties stands for
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := ec2test.New(t)
	startMachines(w)
	caller := awstest.Root()
	caller.AccessKeyID, caller.Service = "ASIASTACK", wire.CloudFormationPrincipal
	w.Sessions = map[string]wire.Caller{caller.AccessKeyID: caller}
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: ec2test.Region})
	w.Service.Register(mux)
	ssm.New(ssm.Options{Store: w.Store, KMS: kms.New(kms.Options{Store: w.Store})}).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &fixture{Fixture: w, names: map[string]string{}, config: aws.Config{
		Region: ec2test.Region, BaseEndpoint: aws.String(server.URL), HTTPClient: awsclient.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider("ASIASTACK", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}}
}

// makeParameterKey has SSM make the key of its parameters, which stays.
func (w *fixture) makeParameterKey() {
	w.T.Helper()
	ctx, client, name := w.T.Context(), awsssm.NewFromConfig(w.config), aws.String("first")
	if _, err := client.PutParameter(ctx, &awsssm.PutParameterInput{Name: name, Value: name,
		Type: ssmtypes.ParameterTypeSecureString}); err != nil {
		w.T.Fatal(err)
	}
	if _, err := client.DeleteParameter(ctx, &awsssm.DeleteParameterInput{Name: name}); err != nil {
		w.T.Fatal(err)
	}
}

// expand returns properties, written as JSON, with the names replaced.
func (w *fixture) expand(text string) map[string]any {
	w.T.Helper()
	for _, name := range slices.Backward(slices.SortedFunc(maps.Keys(w.names), func(a, b string) int {
		return len(a) - len(b)
	})) {
		text = strings.ReplaceAll(text, "$"+name, w.names[name])
	}
	var properties map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&properties); err != nil {
		w.T.Fatalf("%s: %v", text, err)
	}
	return properties
}

func stackTags(logicalID, team string) map[string]string {
	return map[string]string{resource.TagStackID: stackID, resource.TagStackName: "lake",
		resource.TagLogicalID: logicalID, "team": team}
}

// request returns a request about the resource of a logical ID.
func (w *fixture) request(logicalID, properties string) *resource.Request {
	w.T.Helper()
	return &resource.Request{
		Config: w.config, Account: ec2test.Account, Region: ec2test.Region, Partition: "aws",
		StackID: stackID, StackName: "lake", LogicalID: logicalID, Name: "lake-" + logicalID + "-1A2B3C",
		Token: logicalID + "-create", Properties: w.expand(properties), Tags: stackTags(logicalID, "old"), Now: time.Now,
	}
}

// create drives a creation until the resource is stable, and has the request name it.
func (w *fixture) create(kind string, r *resource.Request) resource.Result {
	w.T.Helper()
	result, _ := w.createKnown(kind, r)
	return result
}

// createKnown is create that returns, too, what is known of the resource if the answer that it was made is lost: its
// claim, or what was there before.
func (w *fixture) createKnown(kind string, r *resource.Request) (result, known resource.Result) {
	w.T.Helper()
	eventually.Nil(w.T, "create "+kind, func() (err error) {
		result, err = ec2.Types[kind].Create(w.Context(), r)
		if err != nil {
			return eventually.Never(err)
		}
		r.PhysicalID, r.Progress = result.PhysicalID, result.Progress
		_, noted := result.Progress["noted"]
		if noted || result.Progress["claimed"] != "" {
			known = result
		}
		if result.Pending > 0 {
			return errors.New("it is not stable")
		}
		return nil
	})
	return result, known
}

func (w *fixture) update(kind string, r *resource.Request) {
	w.T.Helper()
	eventually.Nil(w.T, "update "+kind, func() error {
		result, err := ec2.Types[kind].Update(w.Context(), r)
		if err != nil {
			return eventually.Never(err)
		}
		if result.PhysicalID != r.PhysicalID {
			return eventually.Never(errors.New("the update changed the physical ID to " + result.PhysicalID))
		}
		r.Progress = result.Progress
		if result.Pending > 0 {
			return errors.New("it is not stable")
		}
		return nil
	})
}

func (w *fixture) delete(kind string, r *resource.Request) {
	w.T.Helper()
	eventually.Nil(w.T, "delete "+kind, func() error {
		result, err := ec2.Types[kind].Delete(w.Context(), r)
		if err != nil {
			return eventually.Never(err)
		}
		r.Progress = result.Progress
		if result.Pending > 0 {
			return errors.New("it is being deleted")
		}
		return nil
	})
}

// make creates a resource that others need, under a name for $name.
func (w *fixture) make(name, kind, properties string) {
	w.T.Helper()
	r := w.request(name, properties)
	result := w.create(kind, r)
	w.names[name] = result.PhysicalID
	for attribute, value := range result.Attributes {
		w.names[name+"."+attribute] = resource.Text(value)
	}
}

// keys returns the keys of all that the store holds.
func (w *fixture) keys() []string {
	var keys []string
	for line := range strings.Lines(w.Dump()) {
		key, _, _ := strings.Cut(line, " ")
		keys = append(keys, key)
	}
	// Terminated instances, and the client tokens of launches, are kept for a while.
	return slices.DeleteFunc(keys, func(key string) bool {
		return strings.Contains(key, "/i-0") || strings.Contains(key, "/ec2clienttokens/")
	})
}

// wantKeys fails the test unless the store holds what it held before.
func (w *fixture) wantKeys(before []string, what string) {
	w.T.Helper()
	if diff := cmp.Diff(before, w.keys()); diff != "" {
		w.T.Errorf("%s: -before +after:\n%s", what, diff)
	}
}

// wantTags fails the test unless some resource has tags of the stack for the logical ID, with the team.
func (w *fixture) wantTags(logicalID, team string) {
	w.T.Helper()
	for key, value := range stackTags(logicalID, team) {
		out := awstest.Must[*ec2sdk.DescribeTagsOutput](w.T)(w.DescribeTags(w.Context(), &ec2sdk.DescribeTagsInput{
			Filters: []types.Filter{ec2test.Filter("key", key), ec2test.Filter("value", value)}}))
		if len(out.Tags) == 0 {
			w.T.Errorf("nothing has the tag %s=%s", key, value)
		}
	}
}

// wantProperties fails the test unless got has what want has.
func wantProperties(t testing.TB, want, got map[string]any) {
	t.Helper()
	for name, value := range want {
		if !(&resource.Request{Properties: map[string]any{"x": value}, Previous: map[string]any{"x": got[name]}}).
			Changed("x") {
			continue
		}
		if wanted, ok := value.(map[string]any); ok {
			if inner, ok := got[name].(map[string]any); ok {
				wantProperties(t, wanted, inner)
				continue
			}
		}
		t.Errorf("%s is %v, want %v", name, got[name], value)
	}
}

// wantSettled waits until the store holds what it held before: controllers release what a resource had.
func (w *fixture) wantSettled(before []string, what string) {
	w.T.Helper()
	eventually.Nil(w.T, what, func() error {
		if diff := cmp.Diff(before, w.keys()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// life is how a resource of a type comes and goes.
type life struct {
	kind       string
	setup      func(w *fixture)
	properties string
	update     string            // properties after an update in place; empty if there is none
	settles    bool              // controllers release what it had, a while after its deletion
	unread     []string          // properties that EC2 does not show
	attributes map[string]string // with names for $name; "*" for anything
	id         string            // the beginning of the physical ID
}

// run takes a resource through its life, with each answer lost once.
func (l life) run(t *testing.T) {
	w := newFixture(t)
	w.network()
	if l.setup != nil {
		l.setup(w)
	}
	handler := ec2.Types[l.kind]
	before := w.keys()

	// A stack whose creation got through, though nobody knows, is deleted.
	lost := w.request("Lost", l.properties)
	_, known := w.createKnown(l.kind, lost)
	lost.PhysicalID, lost.Progress, lost.Creation = known.PhysicalID, nil, known.Progress
	w.delete(l.kind, lost)
	want := w.wantKeys
	if l.settles {
		want = w.wantSettled
	}
	want(before, "a lost resource is deleted")

	r := w.request("Thing", l.properties)
	result, known := w.createKnown(l.kind, r)
	if !strings.HasPrefix(result.PhysicalID, w.expandText(l.id)) {
		t.Errorf("physical ID %s, want %s...", result.PhysicalID, l.id)
	}
	for name, want := range l.attributes {
		got := resource.Text(result.Attributes[name])
		if want = w.expandText(want); want == "*" && (got == "" || got == "null") || want != "*" && got != want {
			t.Errorf("attribute %s is %q, want %q", name, got, want)
		}
	}
	if handler.Tagged {
		w.wantTags("Thing", "old")
	}
	created := w.keys()
	again := w.request("Thing", l.properties)
	again.PhysicalID, again.Progress, again.Retried = known.PhysicalID, known.Progress, true
	if repeated := w.create(l.kind, again); repeated.PhysicalID != result.PhysicalID ||
		!reflect.DeepEqual(repeated.Attributes, result.Attributes) {
		t.Errorf("a repeated creation gives %+v, want %+v", repeated, result)
	}
	w.wantKeys(created, "a creation is repeated")
	if handler.Tagged {
		replaced := w.request("Thing", l.properties)
		replaced.Replaced = []string{result.PhysicalID}
		if deleted, err := handler.Delete(t.Context(), replaced); err != nil || deleted.PhysicalID != "" {
			t.Errorf("the lookup by tags finds what is replaced: %+v, %v", deleted, err)
		}
	}
	l.read(w, r, l.properties)

	if l.update != "" {
		l.change(w, r)
	} else if handler.Tagged {
		l.retag(w, r)
	}
	w.delete(l.kind, r)
	r.Progress = nil
	w.delete(l.kind, r)
	if _, _, err := handler.Read(t.Context(), r); !errors.Is(err, resource.ErrNotFound) {
		t.Errorf("a deleted resource is read: %v", err)
	}
	want(before, "the resource is deleted")
}

func (w *fixture) expandText(text string) string {
	return resource.Text(w.expand(`{"x": "` + text + `"}`)["x"])
}

func (l life) read(w *fixture, r *resource.Request, want string) {
	w.T.Helper()
	properties, attributes, err := ec2.Types[l.kind].Read(w.Context(), r)
	if err != nil {
		w.T.Fatal(err)
	}
	wanted := w.expand(want)
	for _, name := range l.unread {
		delete(wanted, name)
	}
	if ec2.Types[l.kind].Tagged && wanted["Tags"] != nil {
		list, _ := wanted["Tags"].([]any)
		wanted["Tags"] = append(list, map[string]any{"Key": "team", "Value": r.Tags["team"]})
	}
	wantProperties(w.T, wanted, properties)
	for name := range l.attributes {
		if attributes[name] == nil {
			w.T.Errorf("attribute %s is not read", name)
		}
	}
}

// change updates the resource, twice, as after a lost answer.
func (l life) change(w *fixture, r *resource.Request) {
	w.T.Helper()
	r.Previous, r.PreviousTags, r.Progress, r.Token = r.Properties, r.Tags, nil, "Thing-update"
	r.Properties, r.Tags = w.expand(l.update), stackTags("Thing", "new")
	for range 2 {
		w.update(l.kind, r)
		r.Retried, r.Progress = true, nil
	}
	l.read(w, r, l.update)
	if ec2.Types[l.kind].Tagged {
		w.wantTags("Thing", "new")
	}
	// An update that fails is rolled back.
	r.Properties, r.Previous, r.Tags, r.PreviousTags = r.Previous, r.Properties, r.PreviousTags, r.Tags
	r.Token, r.Retried, r.Progress = "Thing-rollback", false, nil
	w.update(l.kind, r)
	l.read(w, r, l.properties)
	r.Previous, r.PreviousTags, r.Progress = nil, nil, nil
}

// retag changes the tags of the stack.
func (l life) retag(w *fixture, r *resource.Request) {
	w.T.Helper()
	r.Previous, r.PreviousTags, r.Progress, r.Tags = r.Properties, r.Tags, nil, stackTags("Thing", "new")
	w.update(l.kind, r)
	w.wantTags("Thing", "new")
	r.Previous, r.PreviousTags, r.Progress = nil, nil, nil
}

// network is a VPC with an internet gateway and a subnet.
func (w *fixture) network() {
	w.T.Helper()
	w.names["image"] = imageOf(w.Fixture)
	w.make("vpc", "AWS::EC2::VPC", `{"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": true}`)
	w.make("subnet", "AWS::EC2::Subnet", `{"VpcId": "$vpc", "CidrBlock": "10.0.0.0/24", "AvailabilityZone": "eu-west-1a"}`)
	w.make("other", "AWS::EC2::Subnet", `{"VpcId": "$vpc", "CidrBlock": "10.0.1.0/24", "AvailabilityZone": "eu-west-1b"}`)
	w.make("igw", "AWS::EC2::InternetGateway", `{}`)
	w.make("table", "AWS::EC2::RouteTable", `{"VpcId": "$vpc"}`)
}

func attachGateway(w *fixture) {
	w.make("attachment", "AWS::EC2::VPCGatewayAttachment", `{"VpcId": "$vpc", "InternetGatewayId": "$igw"}`)
}

// addIPv6 gives the VPC an IPv6 block: $six is a /64 of it.
func (w *fixture) addIPv6() {
	w.T.Helper()
	w.make("sixes", "AWS::EC2::VPCCidrBlock", `{"VpcId": "$vpc", "AmazonProvidedIpv6CidrBlock": true}`)
	_, attributes, err := ec2.Types["AWS::EC2::VPC"].Read(w.Context(), &resource.Request{Config: w.config,
		PhysicalID: w.names["vpc"]})
	if err != nil {
		w.T.Fatal(err)
	}
	w.names["six"] = strings.Replace(resource.Texts(attributes["Ipv6CidrBlocks"])[0], "/56", "/64", 1)
}
