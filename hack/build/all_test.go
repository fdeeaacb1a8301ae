package main

import (
	"context"
	"errors"
	"testing"
)

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
