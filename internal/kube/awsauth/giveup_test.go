package awsauth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// TestGiveUp has attempts at some times: it is the last one that is to be the last of all, or none.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, Name, errors.New("no"))
	busy, slow, away := apierrors.NewTooManyRequests("busy", 1), apierrors.NewInternalError(errors.New("slow")),
		fmt.Errorf("get aws-auth: %w", client.ErrUnreached)
	large := fmt.Errorf("get aws-auth: %w", client.ErrTooLarge)
	// An attempt is one of those that go on each minute for a while, the last of which is after that.
	type attempt struct {
		after time.Duration
		err   error
	}
	const week = 7 * 24 * time.Hour
	for name, test := range map[string]struct {
		attempts []attempt
		last     bool
	}{
		"refused":                     {[]attempt{{0, refused}, {59 * time.Second, refused}, {time.Second, refused}}, true},
		"refused for less":            {[]attempt{{0, refused}, {59 * time.Second, refused}}, false},
		"away between refusals":       {[]attempt{{0, refused}, {week, away}, {time.Second, refused}}, false},
		"done between refusals":       {[]attempt{{0, refused}, {week, nil}, {time.Second, refused}}, false},
		"away between errors":         {[]attempt{{0, slow}, {week, away}, {time.Second, busy}}, false},
		"errors":                      {[]attempt{{0, slow}, {14 * time.Minute, busy}}, false},
		"errors for long":             {[]attempt{{0, slow}, {15 * time.Minute, busy}}, true},
		"one refusal":                 {[]attempt{{0, slow}, {time.Minute, slow}, {time.Minute, refused}}, false},
		"refusals and errors in turn": {[]attempt{{0, refused}, {9 * time.Minute, slow}, {9 * time.Minute, refused}}, true},
		"unreachable":                 {[]attempt{{0, away}, {week, away}}, false},
		"too large":                   {[]attempt{{0, large}, {15 * time.Minute, large}}, true},
		"no answer in time":           {[]attempt{{0, slow}, {15 * time.Minute, context.DeadlineExceeded}}, true},
		"too large between refusals":  {[]attempt{{0, refused}, {time.Second, large}, {59 * time.Second, refused}}, false},
		"not tried between errors":    {[]attempt{{0, slow}, {-20 * time.Minute, slow}, {time.Second, refused}}, false},
		"not tried between refusals":  {[]attempt{{0, refused}, {-6 * time.Minute, refused}, {time.Second, busy}}, false},
	} {
		var refusedAt, failedAt, triedAt time.Time
		now := time.Unix(1, 0)
		for i, a := range test.attempts {
			for at := now.Add(time.Minute); at.Before(now.Add(a.after)); at = at.Add(time.Minute) {
				if GiveUp(a.err, at, &refusedAt, &failedAt, &triedAt) && !test.last {
					t.Errorf("%s: one before attempt %d is the last", name, i)
				}
			}
			now = now.Add(max(a.after, -a.after)) // less than 0 for a time without attempts
			got, want := GiveUp(a.err, now, &refusedAt, &failedAt, &triedAt), test.last && i == len(test.attempts)-1
			if got != want {
				t.Errorf("%s: attempt %d is the last: %t", name, i, got)
			}
		}
	}
}
