package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/sizedcache"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/turn"
)

// asked answers for the SSM Parameter Store. The answers for one account wait.
type asked struct {
	account string
	begun   chan bool // whether the request waits for no turn of its account
	proceed chan struct{}
}

func (a asked) of(account string) aws.HTTPClient {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if account == a.account {
			a.begun <- store.IsMetered(r.Context())
			<-a.proceed
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: io.NopCloser(
			strings.NewReader(`{"Parameter": {"Name": "p", "Type": "String", "Value": "v", "Version": 1}}`))}, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTemplatesOfAnAccountLeaveOthersTheirs evaluates more templates of one account than may be at a time, each of
// which asks for a parameter: the requests wait for no turn of the account, whose places are those of all accounts; and
// templates of another account are evaluated meanwhile.
func TestTemplatesOfAnAccountLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const one, other = "111122223333", "444455556666"
	c := New(Options{Store: storetest.New(t)})
	a := asked{account: one, begun: make(chan bool, 10), proceed: make(chan struct{})}
	bind := func(account, id string) error {
		p := &pass{c: c, key: id, stack: record.Stack{Account: account, Region: "eu-west-1", ID: id},
			config: aws.Config{Region: "eu-west-1", BaseEndpoint: aws.String("http://coracle.internal"),
				HTTPClient: a.of(account), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", "")}}
		if err := putTemplate(t, c, p.stack, "r", `{"Parameters": {"P":
			{"Type": "AWS::SSM::Parameter::Value<String>", "Default": "p"}}, "Resources": {"T":
			{"Type": "AWS::CloudFormation::WaitConditionHandle"}}}`); err != nil {
			return err
		}
		defer p.release()
		_, _, err := p.bind(t.Context(), "r")
		return err
	}
	const most = maxParsing / 2 / loopWeight
	ended := make(chan error)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		go func() { ended <- bind(one, id) }()
	}
	for range most {
		if !<-a.begun {
			t.Error("a request waits for a turn of its account, with a place that all accounts share")
		}
	}
	if err := bind(other, "g"); err != nil {
		t.Errorf("another account: %v", err)
	}
	if n := len(a.begun); n > 0 {
		t.Errorf("%d more templates of an account are evaluated at a time than may be", n)
	}
	close(a.proceed)
	for range 6 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := c.parsing.Holders() + c.keeping.Holders(); n > 0 {
		t.Errorf("%d accounts are left", n)
	}
}

// volatile has an attribute that is read when it is evaluated.
type volatile struct {
	resource.Handler
	bounded []bool // whether each read had a place, and waited for no turn
}

func (v *volatile) Read(ctx context.Context, _ *resource.Request) (properties, attributes map[string]any, err error) {
	v.bounded = append(v.bounded, turn.IsHeld(ctx) && store.IsMetered(ctx))
	return nil, map[string]any{"Value": "1"}, nil
}

// TestEachEvaluationHasAPlace evaluates policies, outputs and what imports: whoever does has a place that all accounts
// share, and what it asks for waits for no turn of the account.
func TestEachEvaluationHasAPlace(t *testing.T) {
	t.Parallel()
	v := &volatile{}
	const kind = "AWS::SSM::Parameter"
	c := New(Options{Store: storetest.New(t), Types: TypeTable{kind: resource.Type{Handler: v,
		Volatile: []string{"Value"}}}})
	p := &pass{c: c, key: "k", stack: record.Stack{Account: "111122223333", Region: "eu-west-1", ID: "k"}}
	p.state.Value.Current = "r"
	p.rows = map[string]store.Row[record.StackResource]{"P": {Value: record.StackResource{LogicalID: "P",
		Live: &record.StackPhysical{Type: kind, PhysicalID: "p", Properties: []byte("{}")}}}}
	if err := putTemplate(t, c, p.stack, "r", `{"Resources": {
		"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "v"}},
		"Q": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::GetAtt": "P.Value"}}},
		"W": {"Type": "AWS::CloudFormation::WaitCondition", "CreationPolicy": {"ResourceSignal": {"Count":
			{"Fn::GetAtt": "P.Value"}}}}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": "P.Value"}}}}`); err != nil {
		t.Fatal(err)
	}
	defer p.release()
	bound, _, err := p.bind(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	for name, evaluate := range map[string]func() error{
		"policies": func() error {
			_, err := p.policiesOf(t.Context(), "W")
			return err
		},
		"imports": func() error { return p.endImports(t.Context(), "r") },
		"outputs": func() error {
			_, _, err := p.finishForward(t.Context(), &forwarding{pass: p, bound: bound})
			return err
		},
	} {
		v.bounded = nil
		if err := evaluate(); err != nil || len(v.bounded) != 1 || !v.bounded[0] {
			t.Errorf("%s: reads have a place and a bound: %v; %v", name, v.bounded, err)
		}
	}
	if n := c.parsing.Holders(); n > 0 {
		t.Errorf("%d accounts are left", n)
	}
}

// TestPassesKeepFewTemplates has the stacks of an account have larger templates than their passes may have at a time:
// some of them wait for others, and those of another account do not. A large one is not what a pass asks for first, as
// when an update to a small one is rolled back.
func TestPassesKeepFewTemplates(t *testing.T) {
	t.Parallel()
	c := New(Options{Store: storetest.New(t)})
	const small = `{"Resources": {"T": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}}`
	large := strings.TrimSuffix(small, "}") + `, "Metadata": {"M": "` +
		strings.Repeat("m", maxKept/60/5) + `"}}`
	begin := func(ctx context.Context, account, id string) (*pass, error) {
		p := &pass{c: c, key: id, stack: record.Stack{Account: account, Region: "eu-west-1", ID: id}}
		for name, body := range map[string]string{"small": small, "large": large} {
			if err := putTemplate(t, c, p.stack, name, body); err != nil {
				return p, err
			}
		}
		if _, _, err := p.bind(t.Context(), "small"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it has the template
			if _, _, err := p.bind(ctx, "large"); err != nil {
				return p, err
			}
		}
		return p, nil
	}
	const one, other = "111122223333", "444455556666"
	var passes []*pass
	for _, id := range []string{"a", "b", "c", "d"} {
		p, err := begin(t.Context(), one, id)
		if err != nil {
			t.Fatal(err)
		}
		passes = append(passes, p)
	}
	c.bound = sizedcache.New[string, boundTemplate](1) // nothing is remembered: the passes have their templates
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if p, err := begin(short, one, "e"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more template of an account: %v", err)
	} else {
		p.release()
	}
	for _, account := range []string{other, one} {
		p, err := begin(t.Context(), account, "f")
		if err != nil {
			t.Errorf("account %s: %v", account, err)
		}
		p.release()
		passes[0].release()
	}
}

// putTemplate records a revision of a stack.
func putTemplate(t *testing.T, c *Controller, s record.Stack, id, body string) error {
	t.Helper()
	key := record.StackRevisionKey(s.Account, s.Region, s.ID, id)
	return c.store.Txn(t.Context(), c.revisions.PutOp(key, record.StackRevision{Account: s.Account}),
		c.templates.PutOp(key, record.StackTemplate{Account: s.Account, Body: revision.Compress(body)}))
}

// TestMemoryOfTransformedTemplatesIsHeld binds templates that take more memory than their text tells: a pass holds what
// they take, and no more.
func TestMemoryOfTransformedTemplatesIsHeld(t *testing.T) {
	t.Parallel()
	const account = "111122223333"
	large := `{"Type": "AWS::CloudFormation::WaitConditionHandle", "Metadata": {"M": [` +
		strings.Repeat("{},", 999) + `{}]}}`
	for name, section := range map[string]string{
		"a loop with an escape": `{"Fn:\u003aForEach::L": ["I", ["a", "b", "c"], {"T${I}": ` + large + `}]}`,
		"no loop":               `{"T": ` + large + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Options{Store: storetest.New(t)})
			p := &pass{c: c, key: "k", stack: record.Stack{Account: account, Region: "eu-west-1", ID: "k"}}
			body := `{"Transform": "AWS::LanguageExtensions", "Resources": ` + section + `}`
			if err := putTemplate(t, c, p.stack, "r", body); err != nil {
				t.Fatal(err)
			}
			defer p.release()
			bound, _, err := p.bind(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			size := sizeOf(body) + bound.LoopSize()
			if size < sizeOf(body)+1000*300 {
				t.Fatalf("the template takes %d bytes", size)
			}
			_, rest, err := c.keeping.AcquireN(t.Context(), account, maxKept-size)
			if err != nil {
				t.Fatal(err)
			}
			defer rest()
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, more, err := c.keeping.AcquireN(short, account, 1); err == nil {
				t.Error("the pass holds less memory than its template takes")
				more()
			}
		})
	}
}

// TestPassesEnd has each resource take longer than a pass may: it goes on with the next one in another pass.
func TestPassesEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := New(Options{Store: storetest.New(t), Now: func() time.Time { return now }})
	if _, err := c.stacks.Put(t.Context(), "k", record.Stack{}); err != nil {
		t.Fatal(err)
	}
	left := []string{"a", "b", "c"}
	for range left {
		p := &pass{c: c, key: "k"}
		before := len(left)
		_, err := p.runSteps(t.Context(), func(map[string]bool) []string { return left[:min(1, len(left))] },
			func(context.Context, string) outcome {
				now, left = now.Add(passFor+time.Second), left[1:]
				return outcome{progress: true}
			})
		if !errors.Is(err, errPassEnds) || len(left) != before-1 {
			t.Errorf("a pass ends with %v, and %d of %d resources are left", err, len(left), before)
		}
	}
	for _, each := range c.Controllers() {
		if each.Name == "stack" && each.Timeout < passFor+callFor {
			t.Errorf("a pass has %s", each.Timeout)
		}
	}
}

// TestFewResourcesOfAnAccountAreWorkedOn has three stacks of an account work on more resources than it may at a time:
// those of another account do not wait.
func TestFewResourcesOfAnAccountAreWorkedOn(t *testing.T) {
	t.Parallel()
	c := New(Options{Store: storetest.New(t)})
	proceed, ended := make(chan struct{}), make(chan error)
	work := func(account, id string, begun chan struct{}) {
		if _, err := c.stacks.Put(t.Context(), id, record.Stack{}); err != nil {
			t.Fatal(err)
		}
		p := &pass{c: c, key: id, stack: record.Stack{Account: account}}
		var left []string
		for i := range parallel {
			left = append(left, fmt.Sprint(i))
		}
		go func() {
			_, err := p.runSteps(t.Context(), func(map[string]bool) (next []string) {
				next, left = left, nil
				return next
			}, func(context.Context, string) outcome {
				begun <- struct{}{}
				<-proceed
				return outcome{progress: true}
			})
			ended <- err
		}()
	}
	const one, other, stacks = "111122223333", "444455556666", maxSteps/parallel + 1
	begun, beside := make(chan struct{}, stacks*parallel), make(chan struct{}, parallel)
	for i := range stacks {
		work(one, fmt.Sprint("k", i), begun)
	}
	for range maxSteps {
		<-begun
	}
	work(other, "other", beside)
	for range parallel {
		<-beside
	}
	if len(begun) > 0 {
		t.Errorf("more than %d resources of an account are worked on", maxSteps)
	}
	close(proceed)
	for range stacks + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := c.steps.Holders(); n > 0 {
		t.Errorf("%d accounts are left", n)
	}
}

// TestUsesOfExportsKeepTheQuota uses an export in an account that is full.
func TestUsesOfExportsKeepTheQuota(t *testing.T) {
	t.Parallel()
	const account, limit = "111122223333", 100_000
	c := New(Options{Store: storetest.NewAt(t, storetest.Prefix(t), func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: limit}
	})})
	s := record.Stack{Account: account, Region: "eu-west-1", ID: "a", Name: "a"}
	export := record.StackExport{Account: account, Region: s.Region, Name: "e", StackID: "b", Value: "value"}
	if _, err := c.exports.Create(t.Context(), record.StackExportKey(account, s.Region, "e"), export); err != nil {
		t.Fatal(err)
	}
	if _, err := store.NewTable[string](c.store, "rows").Create(t.Context(), store.Key(account, "a"),
		strings.Repeat("x", 2*limit)); err != nil {
		t.Fatal(err)
	}
	var full *store.FullError
	if value, err := (importer{c, s}).value(t.Context(), "e"); !errors.As(err, &full) || c.imported.Count("") > 0 {
		t.Errorf("the export is %q, and its use is recorded: %v", value, err)
	}
}

// TestOtherStacksAreNotReadForExports ends the imports and exports of a stack in an account that has many.
func TestOtherStacksAreNotReadForExports(t *testing.T) {
	t.Parallel()
	const account, region = "111122223333", "eu-west-1"
	c := New(Options{Store: storetest.New(t)})
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		export := record.StackExport{Account: account, Region: region, Name: "e" + id, StackID: id,
			Value: strings.Repeat("x", 1000)}
		used := record.StackImportedValue{Account: account, Region: region, Name: "other", StackID: id,
			StackName: strings.Repeat("x", 1000)}
		if err := c.store.Txn(t.Context(), c.exports.PutOp(record.StackExportKey(account, region, export.Name), export),
			c.imported.PutOp(record.StackImportedValueKey(account, region, used.Name, id), used)); err != nil {
			t.Fatal(err)
		}
	}
	var read int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { read += bytes; return nil })
	p := &pass{c: c, stack: record.Stack{Account: account, Region: region, ID: "a"}}
	if reason, err := p.removeExports(ctx); reason != "" || err != nil {
		t.Fatalf("%s %v", reason, err)
	}
	if err := p.endImports(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if read > 4000 || c.exports.Count("") != 5 || c.imported.Count("") != 5 {
		t.Errorf("%d bytes are read; %d exports and %d uses are left", read, c.exports.Count(""), c.imported.Count(""))
	}
}

// TestStatesAreReadAFewAtATime tidies up after deletions in an account whose stacks have long outputs.
func TestStatesAreReadAFewAtATime(t *testing.T) {
	t.Parallel()
	const account, region, size, extra = "111122223333", "eu-west-1", 2000, 3
	c := New(Options{Store: storetest.New(t)})
	p := &pass{c: c, stack: record.Stack{Account: account, Region: region}}
	var most int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { most = max(most, bytes); return nil })
	var ops []store.Op
	for i := range maxDeleted + extra + 1 {
		s := record.Stack{Account: account, Region: region, ID: fmt.Sprintf("%04d", i)}
		state := record.StackState{Status: types.StackStatusDeleteComplete, DeletedAt: time.Unix(int64(1000-i), 0),
			Outputs: []record.StackOutput{{Key: "O", Value: strings.Repeat("x", size)}}}
		if i == 0 {
			state.Status, state.DeletedAt = types.StackStatusCreateComplete, time.Time{}
		}
		key := record.StackKey(account, region, s.ID)
		if ops = append(ops, c.stacks.PutOp(key, s), c.states.PutOp(key, state)); len(ops) < 100 && i < maxDeleted+extra {
			continue
		}
		if err := c.store.Txn(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		ops = nil
	}
	if err := p.removeOldest(ctx); err != nil {
		t.Fatal(err)
	}
	if most > (statesAtOnce+1)*size*2 {
		t.Errorf("%d bytes are read at once", most)
	}
	if n := c.states.Count(""); n != maxDeleted+1 {
		t.Errorf("%d stacks are left", n)
	}
	last := fmt.Sprintf("%04d", maxDeleted+extra)
	for id, want := range map[string]error{"0000": nil, "0001": nil, last: store.ErrNotFound} {
		if _, err := c.states.Get(t.Context(), record.StackKey(account, region, id)); !errors.Is(err, want) {
			t.Errorf("stack %s: %v", id, err)
		}
	}
}
