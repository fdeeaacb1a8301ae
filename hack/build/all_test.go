package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// TestMakeCompilesWithTheSameFlags holds what lets "make" and daemons compile each package once.
func TestMakeCompilesWithTheSameFlags(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("make", "--no-print-directory", "goflags")
	cmd.Dir = testenv.Root()
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.TrimSpace(strings.ReplaceAll(string(out), "'", ""))
	if want := strings.Join(upstream.CompilerFlags, " "); got != want {
		t.Errorf("make compiles with\n%s\nand internal/upstream with\n%s", got, want)
	}
}

func TestStagesBeginWhenTheOneBeforeHasCompiled(t *testing.T) {
	t.Parallel()
	linked := make(chan struct{})
	var order []string
	err := runStages(t.Context(),
		func(ctx context.Context, compiled func()) error {
			order = append(order, "one compiled")
			compiled()
			select {
			case <-linked:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		func(_ context.Context, _ func()) error {
			order = append(order, "two")
			close(linked) // two runs while one links
			return nil
		},
		func(_ context.Context, _ func()) error {
			order = append(order, "three") // two was not said to be compiled, and has ended
			return nil
		},
	)
	if err != nil || len(order) != 3 || order[0] != "one compiled" || order[1] != "two" || order[2] != "three" {
		t.Errorf("%v: %v", order, err)
	}
}

func TestAFailedStageIsTheLast(t *testing.T) {
	t.Parallel()
	failure := errors.New("it does not compile")
	for _, links := range []bool{false, true} {
		started := make(chan struct{})
		var later bool
		err := runStages(t.Context(),
			func(ctx context.Context, compiled func()) error {
				if links {
					compiled()
					<-started
				}
				return failure
			},
			func(ctx context.Context, _ func()) error {
				close(started)
				<-ctx.Done()
				return ctx.Err()
			},
			func(_ context.Context, _ func()) error {
				later = true
				return nil
			},
		)
		if !errors.Is(err, failure) || later {
			t.Errorf("links first: %t: the third stage ran: %t; %v", links, later, err)
		}
	}
}
