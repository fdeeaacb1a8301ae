package stack_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestMortal runs the controller in a process of its own, which TestTheControllerMayDieAnywhere starts and kills. It
// ends when no stack is in progress any more.
func TestMortal(t *testing.T) {
	endpoint, prefix := os.Getenv("MORTAL_ETCD"), os.Getenv("MORTAL_PREFIX")
	if endpoint == "" {
		t.Skip("runs as a process of TestTheControllerMayDieAnywhere")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(t.Context(), s, identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := wire.NewMux(wire.Options{Credentials: who, Authorizer: who})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := stack.New(stack.Options{Store: s, Types: cloudTypes(s), Config: configure(mux, who), RetryFor: time.Second})
	go func() { ended <- reconcile.Run(ctx, slog.Default(), c.Controllers()...) }()
	eventually.True(t, "no stack is in progress", func() bool {
		stacks, err := record.Stacks(s).List(ctx, "")
		if err != nil {
			return false
		}
		for _, row := range stacks {
			state, err := record.StackStates(s).Get(ctx, row.Key)
			if err != nil || state.Value.OperationID != row.Value.Operation.ID ||
				strings.HasSuffix(string(state.Value.Status), "_IN_PROGRESS") {
				return false
			}
		}
		return true
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// runMortal runs the controller until it dies at a point, or without one until it is done. It reports whether it died.
func (f *fixture) runMortal(point string) bool {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), eventually.Limit)
	defer cancel()
	mortal := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMortal$")
	mortal.Env = append(os.Environ(), crash.Environment+"="+point, "MORTAL_ETCD="+storetest.Client(f.t).Endpoints()[0],
		"MORTAL_PREFIX="+f.Prefix)
	out, err := mortal.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case ctx.Err() == nil && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	f.t.Fatalf("at %q: %v\n%s", point, err, out)
	return false
}

// Killed at any point of creation, update, rollback and deletion, the controller makes nothing twice and forgets
// nothing.
func TestTheControllerMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	template := func(cidr string, days int, more string) string {
		return fmt.Sprintf(`{"Resources":{
			"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":%q}},
			"Group":{"Type":"AWS::Logs::LogGroup","DependsOn":["Vpc"],"Properties":{"RetentionInDays":%d}}%s}}`,
			cidr, days, more)
	}
	const bad = `,"Bad":{"Type":"AWS::SSM::Parameter","DependsOn":["Group"],"Properties":{"Type":"String","Value":"x"}}`
	const slow = `,"Slow":{"Type":"AWS::Logs::LogGroup"}`
	visited := map[string]bool{}
	for _, point := range crash.Points() {
		if !strings.HasPrefix(point, "stack/") {
			continue
		}
		visited[point] = false
		w := newFixture(t)
		w.halt()
		w.fault("Slow", fault{Pending: 2})
		w.fault("Bad", fault{Create: "no"})
		id := ""
		for _, step := range []struct {
			name string
			do   func()
			want types.StackStatus
			left string
		}{
			{"create", func() { id = w.create("s", template("10.0.0.0/16", 1, slow)) }, types.StackStatusCreateComplete,
				"Group:1 Slow:1 Vpc:1"},
			{"update", func() { w.update("s", template("10.1.0.0/16", 7, "")) }, types.StackStatusUpdateComplete,
				"Group:1 Vpc:1"},
			{"rollback", func() { w.update("s", template("10.2.0.0/16", 14, bad)) },
				types.StackStatusUpdateRollbackComplete, "Group:1 Vpc:1"},
			{"delete", func() { w.delete("s") }, types.StackStatusDeleteComplete, ""},
		} {
			step.do()
			if w.runMortal(point) {
				visited[point] = true
				w.runMortal("")
			}
			var s types.Stack
			eventually.True(t, "this process knows what the other has written", func() bool {
				s = w.describe(id)
				return !strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS")
			})
			if got := w.counts(); s.StackStatus != step.want || got != step.left {
				t.Errorf("%s, killed at %s: the stack is %s (%s) with %q, want %s with %q\n%s", step.name, point,
					s.StackStatus, aws.ToString(s.StackStatusReason), got, step.want, step.left,
					strings.Join(w.events(id), "\n"))
			}
		}
	}
	for point, died := range visited {
		if !died {
			t.Errorf("the controller did not die at %s", point)
		}
	}
}
