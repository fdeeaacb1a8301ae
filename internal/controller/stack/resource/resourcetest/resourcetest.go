package resourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// Below, the resources of a stack go through their lives, as the engine would have it, against real services in the
// process. Every call is made twice with the same request, as if the first answer had been lost in a crash.

// StackID is the stack of the tests.
const StackID = "arn:aws:cloudformation:" + awstest.Region + ":" + awstest.Account + ":stack/lake/1f3d"

// Session is the access key with which CloudFormation acts as the root user: a key of [awstest.Judge.Sessions].
const Session = "ASIASTACK"

// Caller returns who has the access key: CloudFormation, on behalf of the root user.
func Caller() wire.Caller {
	caller := awstest.Root()
	caller.AccessKeyID, caller.Service = Session, wire.CloudFormationPrincipal
	return caller
}

// Stack has what the handlers of some types work with.
type Stack struct {
	T      testing.TB
	Types  map[string]resource.Type
	Config aws.Config
	// Controllers, unless nil, plays the controllers between two calls of a handler that has to wait for them.
	Controllers func()
	// Keys returns the keys of all records that resources are made of.
	Keys func() []string
}

// New returns a stack over a store of its own, with the services that register serves. The root user may do everything.
func New(t testing.TB, kinds map[string]resource.Type, register func(*wire.Mux, *store.Store)) *Stack {
	t.Helper()
	prefix := storetest.Prefix(t)
	judge := awstest.NewJudge()
	judge.Sessions = map[string]wire.Caller{Session: Caller()}
	mux := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, Region: awstest.Region})
	register(mux, storetest.NewAt(t, prefix))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &Stack{T: t, Types: kinds, Config: NewConfig(server.URL, awstest.Region), Keys: func() []string {
		return slices.Sorted(maps.Keys(storetest.Rows(t, prefix)))
	}}
}

// NewConfig returns the configuration of clients of a server, with the access key of CloudFormation.
func NewConfig(url, region string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String(url), HTTPClient: awsclient.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider(Session, "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// Properties returns properties, written as JSON.
func Properties(t testing.TB, text string) map[string]any {
	t.Helper()
	var properties map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&properties); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return properties
}

func tagsOf(logicalID, team string) map[string]string {
	return map[string]string{
		resource.TagStackID: StackID, resource.TagStackName: "lake", resource.TagLogicalID: logicalID, "team": team,
	}
}

// Request returns the first request about the resource of a logical ID.
func (s *Stack) Request(logicalID, properties string) *resource.Request {
	s.T.Helper()
	return &resource.Request{
		Config: s.Config, Account: awstest.Account, Region: s.Config.Region, Partition: "aws",
		StackID: StackID, StackName: "lake", LogicalID: logicalID,
		Name: "lake-" + strings.ToLower(logicalID) + "-1a2b3c", Token: logicalID + "-create",
		Properties: Properties(s.T, properties), Tags: tagsOf(logicalID, "old"), Now: time.Now,
	}
}

// call is a method of a handler.
type call = func(context.Context, *resource.Request) (resource.Result, error)

// maxCalls ends a test whose resource never is stable.
const maxCalls = 100

// run calls a method until the resource is stable. The answer to each first call is lost.
func (s *Stack) run(r *resource.Request, method call) (resource.Result, error) {
	for range maxCalls {
		lost := *r
		lost.Progress = maps.Clone(r.Progress)
		if _, err := method(s.T.Context(), &lost); err != nil && !resource.Retryable(err) {
			return resource.Result{}, err
		}
		r.Retried = true
		result, err := method(s.T.Context(), r)
		if err != nil && s.Controllers != nil && resource.Retryable(err) {
			s.Controllers()
			continue
		}
		if err != nil {
			return result, err
		}
		r.PhysicalID, r.Progress = result.PhysicalID, result.Progress
		if result.Pending <= 0 {
			return result, nil
		}
		if s.Controllers != nil {
			s.Controllers()
		}
	}
	return resource.Result{}, fmt.Errorf("%s is not stable after %d calls", r.LogicalID, maxCalls)
}

// Create creates a resource, and has the request name it.
func (s *Stack) Create(kind string, r *resource.Request) resource.Result {
	s.T.Helper()
	result, err := s.run(r, s.Types[kind].Create)
	if err != nil {
		s.T.Fatalf("create %s %s: %v", kind, r.LogicalID, err)
	}
	r.Progress, r.Retried = nil, false
	return result
}

// Update changes a resource to other properties, and has the request have them. It returns the error of the handler.
func (s *Stack) Update(
	kind string, r *resource.Request, properties map[string]any, team string,
) (resource.Result, error) {
	s.T.Helper()
	r.Previous, r.Properties = r.Properties, properties
	r.PreviousTags, r.Tags = r.Tags, tagsOf(r.LogicalID, team)
	r.Token += "-update"
	result, err := s.run(r, s.Types[kind].Update)
	r.Progress, r.Retried, r.Previous, r.PreviousTags = nil, false, nil, nil
	return result, err
}

// Delete deletes a resource.
func (s *Stack) Delete(kind string, r *resource.Request) {
	s.T.Helper()
	r.Token += "-delete"
	id := r.PhysicalID
	if _, err := s.run(r, s.Types[kind].Delete); err != nil {
		s.T.Fatalf("delete %s %s: %v", kind, r.LogicalID, err)
	}
	r.PhysicalID, r.Progress, r.Retried = id, nil, false
}

// Life is the life of a resource.
type Life struct {
	Type       string
	Properties string
	// Updates are the properties of updates, one after the other. Each begins from those before, of which it replaces
	// some, and removes those that are null.
	Updates []string
	// Ref and Attributes are what is wanted of the first result. An attribute that ends in "*" is a prefix.
	Ref        string
	Attributes map[string]string
	// Hidden are properties that the service does not tell.
	Hidden []string
	// Absent are attributes of the schema that no resource here has.
	Absent []string
	// Kept are properties that the service has no way to take back.
	Kept []string
	// Unfindable tells that nothing tells the resource of a creation whose answer was lost, but for its client token.
	Unfindable bool
	// Taken tells that nobody else can create the resource as long as this one is there.
	Taken bool
}

// Run takes a resource through its life: it is created, updated, rolled back and deleted, and leaves nothing.
func (s *Stack) Run(life Life) {
	s.T.Helper()
	ctx, handler := s.T.Context(), s.Types[life.Type]
	before := s.Keys()

	never := s.Request("Own", life.Properties)
	if _, err := handler.Delete(ctx, never); err != nil {
		s.T.Errorf("delete what was never made: %v", err)
	}

	r := s.Request("Own", life.Properties)
	s.wantResult(life, s.Create(life.Type, r))
	first := s.wantLive(life, r)
	if life.Taken {
		s.wantTaken(life, r)
	}
	whole := r.Properties
	for i, text := range life.Updates {
		next := maps.Clone(r.Properties)
		for name, value := range Properties(s.T, text) {
			if next[name] = value; value == nil {
				delete(next, name)
			}
		}
		id := r.PhysicalID
		if _, err := s.Update(life.Type, r, next, fmt.Sprint("team", i)); err != nil {
			s.T.Fatalf("%s: update to %s: %v", life.Type, text, err)
		}
		if r.PhysicalID != id {
			s.T.Errorf("%s: the update changed the physical ID from %s to %s", life.Type, id, r.PhysicalID)
		}
		s.wantLive(life, r)
	}
	if len(life.Updates) > 0 {
		if _, err := s.Update(life.Type, r, whole, "old"); err != nil {
			s.T.Fatalf("%s: roll back: %v", life.Type, err)
		}
		now := s.wantLive(life, r)
		for _, name := range life.Kept {
			delete(first, name)
			delete(now, name)
		}
		if diff := cmp.Diff(first, now); diff != "" {
			s.T.Errorf("%s: the update was not rolled back: -first +now:\n%s", life.Type, diff)
		}
	}

	s.Delete(life.Type, r)
	if _, _, err := handler.Read(ctx, r); !errors.Is(err, resource.ErrNotFound) {
		s.T.Errorf("%s: read after the deletion: got %v, want %v", life.Type, err, resource.ErrNotFound)
	}
	s.Delete(life.Type, r)
	s.wantKeys(life.Type, before)
	if !life.Unfindable {
		s.wantForgotten(life, before)
	}
}

// own is what names in properties begin with; "OwnerUid" is none.
var own = regexp.MustCompile(`\bOwn\b`)

// wantForgotten deletes a resource whose creation got through, with every answer lost.
func (s *Stack) wantForgotten(life Life, before []string) {
	s.T.Helper()
	r := s.Request("Lost", own.ReplaceAllString(life.Properties, "Lost"))
	lost := *r
	result, err := s.Types[life.Type].Create(s.T.Context(), &lost)
	if err != nil {
		s.T.Fatalf("%s: create: %v", life.Type, err)
	}
	if result.Progress["claimed"] != "" { // nothing is made, and the name is known
		r.PhysicalID = result.PhysicalID
	}
	r.Retried = true
	s.Delete(life.Type, r)
	if s.Controllers != nil { // a repeated deletion does not find what is being deleted already
		s.Controllers()
	}
	s.wantKeys(life.Type+", whose creation was forgotten", before)
}

func (s *Stack) wantKeys(what string, before []string) {
	s.T.Helper()
	if diff := cmp.Diff(before, s.Keys()); diff != "" {
		s.T.Errorf("%s: records: -before +after:\n%s", what, diff)
	}
}

// wantResult checks what Ref and GetAtt return.
func (s *Stack) wantResult(life Life, result resource.Result) {
	s.T.Helper()
	ref := result.Ref
	if ref == "" {
		ref = result.PhysicalID
	}
	if life.Ref != "" && ref != life.Ref {
		s.T.Errorf("%s: Ref: got %s, want %s", life.Type, ref, life.Ref)
	}
	if known, ok := schema.Of(life.Type); ok {
		for name := range known.Attributes {
			if _, has := result.Attributes[name]; !has && !slices.Contains(life.Absent, name) {
				s.T.Errorf("%s: attribute %s of the schema is missing", life.Type, name)
			}
		}
	}
	for name, want := range life.Attributes {
		got := resource.Text(result.Attributes[name])
		prefix, open := strings.CutSuffix(want, "*")
		if open && (!strings.HasPrefix(got, prefix) || got == prefix) || !open && got != want {
			s.T.Errorf("%s: attribute %s: got %q, want %q", life.Type, name, got, want)
		}
	}
}

// wantLive reads the resource, and checks that it is as its properties say.
func (s *Stack) wantLive(life Life, r *resource.Request) map[string]any {
	s.T.Helper()
	live, _, err := s.Types[life.Type].Read(s.T.Context(), r)
	if err != nil {
		s.T.Fatalf("%s: read: %v", life.Type, err)
	}
	for name, want := range r.Properties {
		if slices.Contains(life.Hidden, name) {
			continue
		}
		if got := live[name]; !covers(got, want) {
			s.T.Errorf("%s: property %s: got %s, want %s", life.Type, name, resource.Text(got), resource.Text(want))
		}
	}
	return live
}

// wantTaken creates the same resource for another logical ID, which must not get hold of it.
func (s *Stack) wantTaken(life Life, r *resource.Request) {
	s.T.Helper()
	other := s.Request("Other", life.Properties)
	other.Name = r.Name
	for _, retried := range []bool{false, true} {
		other.Retried = retried
		result, err := s.Types[life.Type].Create(s.T.Context(), other)
		if resource.Classify(err) != resource.AlreadyExists {
			s.T.Errorf("%s: create it again for another logical ID: got %+v, %v, want %s", life.Type, result, err,
				resource.AlreadyExists)
		}
	}
	if _, err := s.Types[life.Type].Delete(s.T.Context(), other); err != nil {
		s.T.Errorf("%s: delete what was not made: %v", life.Type, err)
	}
	s.wantLive(life, r)
}

// covers reports whether what is live has all that is wanted. The order of lists does not count; a policy may be text.
func covers(live, wanted any) bool {
	if text, ok := wanted.(string); ok && strings.HasPrefix(text, "{") {
		wanted = resource.Document(text)
	}
	if text, ok := live.(string); ok && strings.HasPrefix(text, "{") {
		live = resource.Document(text)
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		object, _ := live.(map[string]any)
		for name, value := range wanted {
			if !covers(object[name], value) {
				return false
			}
		}
		return true
	case []any:
		list, _ := live.([]any)
		if len(list) != len(wanted) {
			return false
		}
		for _, w := range wanted {
			if !slices.ContainsFunc(list, func(l any) bool { return covers(l, w) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(resource.Text(live), resource.Text(wanted))
}
