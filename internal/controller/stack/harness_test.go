package stack_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/cloudformation"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// thing is a resource of the cloud.
type thing struct {
	Type, LogicalID, StackID string
	Properties               map[string]any
	Tags                     map[string]string
	Polls                    int // until it is stable
	Token                    string
}

// cloud is a service whose things are in the store, so that they outlive the process that makes them. It is the handler
// of all its types.
type cloud struct {
	kind   string
	things store.Table[thing]
	faults store.Table[fault]
}

// fault is what goes wrong with a logical ID.
type fault struct {
	Create, Update, Delete string // message
	Pending                int    // how often a creation is not stable
	Forever                bool   // it is never stable
	Busy                   int    // how often a deletion is refused because the thing is in use
}

func (c cloud) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	f, _ := c.faults.Get(ctx, r.LogicalID)
	id := r.PhysicalID
	if id == "" {
		if f.Value.Create != "" {
			return resource.Result{}, resource.Errorf(resource.AccessDenied, "%s", f.Value.Create)
		}
		if r.Retried {
			id = c.find(ctx, r)
		}
	}
	if id == "" {
		id = strings.ToLower(r.LogicalID) + "-" + r.Token[:8]
		if _, err := c.things.Create(ctx, id, thing{Type: c.kind, LogicalID: r.LogicalID, StackID: r.StackID,
			Properties: r.Properties, Tags: r.Tags, Token: r.Token}); err != nil {
			return resource.Result{}, err
		}
	}
	row, err := c.things.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return resource.Result{PhysicalID: id}, resource.ErrNotFound
	}
	if err != nil {
		return resource.Result{PhysicalID: id}, err
	}
	result := resource.Result{PhysicalID: id, Attributes: attributes(id, row.Value)}
	if f.Value.Forever || row.Value.Polls < f.Value.Pending {
		row.Value.Polls++
		if _, err := c.things.Update(ctx, row); err != nil {
			return resource.Result{PhysicalID: id}, err
		}
		result.Pending = time.Second
	}
	return result, nil
}

func attributes(id string, t thing) map[string]any {
	return map[string]any{"Arn": "arn:thing:" + id, "VpcId": id, "CidrBlock": t.Properties["CidrBlock"],
		"DefaultSecurityGroup": "sg-" + id}
}

func (c cloud) find(ctx context.Context, r *resource.Request) string {
	rows, _ := c.things.List(ctx, "")
	for _, row := range rows {
		if row.Value.StackID == r.StackID && row.Value.LogicalID == r.LogicalID &&
			!slices.Contains(r.Replaced, row.Key) {
			return row.Key
		}
	}
	return ""
}

func (c cloud) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	f, _ := c.faults.Get(ctx, r.LogicalID)
	result := resource.Result{PhysicalID: r.PhysicalID}
	if f.Value.Update != "" && r.Properties["RetentionInDays"] != r.Previous["RetentionInDays"] {
		if fmt.Sprint(r.Properties["RetentionInDays"]) == f.Value.Update {
			return result, resource.Errorf(resource.InvalidRequest, "no %s", f.Value.Update)
		}
	}
	row, err := c.things.Modify(ctx, r.PhysicalID, func(t *thing) error {
		t.Properties, t.Tags = r.Properties, r.Tags
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return result, resource.ErrNotFound
	}
	result.Attributes = attributes(r.PhysicalID, row.Value)
	return result, err
}

func (c cloud) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	f, _ := c.faults.Get(ctx, r.LogicalID)
	id := r.PhysicalID
	if id == "" {
		id = c.find(ctx, r)
	}
	if f.Value.Delete != "" {
		return resource.Result{PhysicalID: id}, resource.Errorf(resource.AccessDenied, "%s", f.Value.Delete)
	}
	if f.Value.Busy > 0 {
		if _, err := c.faults.Modify(ctx, r.LogicalID, func(f *fault) error { f.Busy--; return nil }); err != nil {
			return resource.Result{}, err
		}
		return resource.Result{PhysicalID: id}, resource.Errorf(resource.ResourceConflict, "in use")
	}
	row, err := c.things.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return resource.Result{PhysicalID: id}, nil
	}
	if err == nil {
		err = c.things.Delete(ctx, row)
	}
	return resource.Result{PhysicalID: id}, err
}

func (c cloud) Read(ctx context.Context, r *resource.Request) (properties, got map[string]any, err error) {
	row, err := c.things.Get(ctx, r.PhysicalID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, resource.ErrNotFound
	}
	properties = maps.Clone(row.Value.Properties)
	return properties, attributes(r.PhysicalID, row.Value), err
}

// The types that the cloud has.
func cloudTypes(s *store.Store) stack.TypeTable {
	table := stack.Own(s, func(string) string { return "http://127.0.0.1:4566" })
	for _, kind := range []string{"AWS::Logs::LogGroup", "AWS::EC2::VPC", "AWS::SSM::Parameter"} {
		table[kind] = resource.Type{Handler: newCloud(s, kind), NameLimit: 60, Tagged: true,
			Names: []string{"LogGroupName", "Name"}, Refused: []string{"BearerTokenAuthenticationEnabled"}}
	}
	return table
}

func newCloud(s *store.Store, kind string) cloud {
	return cloud{kind, store.NewTable[thing](s, "things"), store.NewTable[fault](s, "faults")}
}

// fixture is CloudFormation behind the real wire with the real identities.
type fixture struct {
	*iamtest.AWS
	*cloudformation.Client
	t     testing.TB
	cloud cloud
	api   *service.Service
	http  *http.Client
	types stack.TypeTable

	stop    context.CancelFunc
	running sync.WaitGroup
	skew    atomic.Int64 // of the controller's clock, in nanoseconds
}

func newFixture(t testing.TB, edits ...func(*store.Options)) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t, edits...), t: t}
	w.cloud = newCloud(w.Store, "")
	w.types = cloudTypes(w.Store)
	w.api = service.New(service.Options{Store: w.Store, Identity: w.Identity, Types: w.types,
		Config: configure(w.Mux, w.Identity)})
	w.api.Register(w.Mux)
	// Its own connections: those of the default client are closed by other tests.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w.http = &http.Client{Transport: transport}
	w.Client = w.as(w.Root)
	w.start()
	t.Cleanup(w.halt)
	return w
}

func (f *fixture) as(c aws.Credentials) *cloudformation.Client {
	return cloudformation.New(cloudformation.Options{Region: iamtest.Region, BaseEndpoint: aws.String(f.URL),
		RetryMaxAttempts: 3, HTTPClient: f.http,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return c, nil
		})})
}

// configure returns configurations of clients inside the process.
func configure(mux *wire.Mux, who *identity.Identity) func(region string, caller record.ForwardedSession, roleARN,
	stackARN string) aws.Config {
	return func(region string, caller record.ForwardedSession, roleARN, stackARN string) aws.Config {
		credentials := who.ForwardedCredentials(caller, wire.CloudFormationPrincipal)
		if roleARN != "" {
			credentials = who.PassedRoleCredentials(roleARN, wire.CloudFormationPrincipal, "AWSCloudFormation", stackARN)
		}
		return aws.Config{Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
			HTTPClient: &http.Client{Transport: mux.Transport()}, Credentials: credentials}
	}
}

// start starts the controller, as a daemon does that starts.
func (f *fixture) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	quiet := slog.New(slog.DiscardHandler)
	c := stack.New(stack.Options{Store: f.Store, Types: f.types, Config: configure(f.Mux, f.Identity), Log: quiet,
		RetryFor: 200 * time.Millisecond, RemoveFor: 2 * time.Second, Now: f.now})
	f.running.Go(func() {
		if err := reconcile.Run(ctx, quiet, c.Controllers()...); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fixture) halt() {
	f.stop()
	f.running.Wait()
}

// now returns the time of the controller's clock.
func (f *fixture) now() time.Time { return time.Now().Add(time.Duration(f.skew.Load())) }

// advance sets the controller's clock forward.
func (f *fixture) advance(d time.Duration) { f.skew.Add(int64(d)) }

func (f *fixture) fault(id string, injected fault) {
	f.t.Helper()
	if _, err := f.cloud.faults.Put(context.Background(), id, injected); err != nil {
		f.t.Fatal(err)
	}
}

// all returns the things that there are, by logical ID.
func (f *fixture) all() map[string][]string {
	f.t.Helper()
	rows, err := f.cloud.things.List(context.Background(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string][]string{}
	for _, row := range rows {
		all[row.Value.LogicalID] = append(all[row.Value.LogicalID], row.Key)
	}
	return all
}

// counts returns how many things of each logical ID there are: "A:1 B:2".
func (f *fixture) counts() string {
	var texts []string
	all := f.all()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, fmt.Sprintf("%s:%d", id, len(all[id])))
	}
	return strings.Join(texts, " ")
}

// create creates a stack and returns its ID.
func (f *fixture) create(name, body string, edit ...func(*cloudformation.CreateStackInput)) string {
	f.t.Helper()
	in := &cloudformation.CreateStackInput{StackName: &name, TemplateBody: &body}
	for _, change := range edit {
		change(in)
	}
	return *awstest.Must[*cloudformation.CreateStackOutput](f.t)(f.CreateStack(f.t.Context(), in)).StackId
}

// update updates a stack.
func (f *fixture) update(name, body string, edit ...func(*cloudformation.UpdateStackInput)) {
	f.t.Helper()
	in := &cloudformation.UpdateStackInput{StackName: &name, TemplateBody: &body}
	for _, change := range edit {
		change(in)
	}
	awstest.Must[*cloudformation.UpdateStackOutput](f.t)(f.UpdateStack(f.t.Context(), in))
}

func (f *fixture) delete(name string) {
	f.t.Helper()
	awstest.Must[*cloudformation.DeleteStackOutput](f.t)(f.DeleteStack(f.t.Context(),
		&cloudformation.DeleteStackInput{StackName: &name}))
}

// describe returns a stack.
func (f *fixture) describe(name string) types.Stack {
	f.t.Helper()
	out := awstest.Must[*cloudformation.DescribeStacksOutput](f.t)(f.DescribeStacks(f.t.Context(),
		&cloudformation.DescribeStacksInput{StackName: &name}))
	return out.Stacks[0]
}

// await waits until a stack has a status.
func (f *fixture) await(name string, want types.StackStatus) types.Stack {
	f.t.Helper()
	var s types.Stack
	eventually.Nil(f.t, fmt.Sprintf("stack %s becomes %s", name, want), func() error {
		s = f.describe(name)
		if s.StackStatus != want {
			err := fmt.Errorf("it is %s: %s\n%s", s.StackStatus, aws.ToString(s.StackStatusReason),
				strings.Join(f.events(name), "\n"))
			if !strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS") && !strings.HasSuffix(string(want), "IN_PROGRESS") {
				return eventually.Never(err)
			}
			return err
		}
		return nil
	})
	return s
}

// events returns the events of a stack, the first one first: "ID STATUS reason".
func (f *fixture) events(name string) (all []string) {
	f.t.Helper()
	out, err := f.DescribeStackEvents(f.t.Context(), &cloudformation.DescribeStackEventsInput{StackName: &name})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range out.StackEvents {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", aws.ToString(e.LogicalResourceId), e.ResourceStatus,
			aws.ToString(e.ResourceStatusReason))))
	}
	slices.Reverse(all)
	return all
}

// physical returns the physical ID of a resource; empty before there is one.
func (f *fixture) physical(stack, id string) string {
	out, err := f.DescribeStackResource(f.t.Context(), &cloudformation.DescribeStackResourceInput{StackName: &stack,
		LogicalResourceId: &id})
	if err != nil {
		return ""
	}
	return aws.ToString(out.StackResourceDetail.PhysicalResourceId)
}

// awaitEvent waits for an event of a stack.
func (f *fixture) awaitEvent(name, event string) {
	f.t.Helper()
	eventually.Nil(f.t, fmt.Sprintf("stack %s has the event %q", name, event), func() error {
		if !f.has(name, event) {
			return errors.New(strings.Join(f.events(name), "\n"))
		}
		return nil
	})
}

// wantEvents fails the test unless a stack has events.
func (f *fixture) wantEvents(name string, want ...string) {
	f.t.Helper()
	for _, event := range want {
		if !f.has(name, event) {
			f.t.Errorf("there is no event %q in\n%s", event, strings.Join(f.events(name), "\n"))
		}
	}
}

// wantCounts fails the test unless there are so many things of each logical ID.
func (f *fixture) wantCounts(want string) {
	f.t.Helper()
	if got := f.counts(); got != want {
		f.t.Errorf("there are %q, want %q", got, want)
	}
}

// put sends a signal to the URL of a wait condition handle, and returns the status.
func (f *fixture) put(url, body string) int {
	answer := httptest.NewRecorder()
	f.api.WaitConditions(answer, httptest.NewRequest(http.MethodPut, url, strings.NewReader(body)))
	return answer.Code
}

// outputs returns the outputs of a stack.
func outputs(s types.Stack) map[string]string {
	all := map[string]string{}
	for _, o := range s.Outputs {
		all[*o.OutputKey] = *o.OutputValue
	}
	return all
}

// has reports whether an event is among those of a stack.
func (f *fixture) has(name, event string) bool {
	return slices.ContainsFunc(f.events(name), func(e string) bool { return strings.Contains(e, event) })
}
