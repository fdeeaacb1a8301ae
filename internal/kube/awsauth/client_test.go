package awsauth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/turn"
)

// newTestClient returns a client of an API server that has an aws-auth.
func newTestClient(parsers *turn.Places, text string) *Client {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, ResourceVersion: "1"},
		Data: map[string]string{MapRoles: text}}
	set := fake.NewClientset()
	set.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, m.DeepCopy(), nil
	})
	c := NewClient(set.CoreV1(), "111122223333")
	c.parsers = parsers
	return c
}

// TestAWSAuthIsParsedOnceASecond has aws-auth that changes all the time: its last content is told soon, also when the
// watch has ended by then.
func TestAWSAuthIsParsedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(newParsers(), "")
		latest := make(chan map[string]string, 1)
		told := 0
		var last map[string]string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.tellLatest(t.Context(), latest, func(data map[string]string) { told, last = told+1, data })
		}()
		const seconds, each = 20, 100
		for range seconds * each {
			select {
			case <-latest:
			default:
			}
			latest <- map[string]string{MapRoles: "[]"}
			time.Sleep(time.Second / each)
		}
		select {
		case <-latest:
		default:
		}
		latest <- nil
		close(latest)
		<-ended
		if told > seconds+tellBurst+2 || last != nil {
			t.Errorf("it is told %d times, last %v", told, last)
		}
	})
}

// TestEditsAndLookUpsParseAMiBASecond has an aws-auth of a MiB that changes whenever it is read, and that no edit is
// written to.
func TestEditsAndLookUpsParseAMiBASecond(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("#", maxSize)
	for name, use := range map[string]func(ctx context.Context, c *Client, parsed func()) error{
		"edits": func(ctx context.Context, c *Client, parsed func()) error {
			return c.Edit(ctx, "test", func(text string) (string, error) {
				parsed()
				return text, nil
			})
		},
		"look-ups": func(ctx context.Context, c *Client, parsed func()) error {
			_, err := c.Maps(ctx, ours)
			if c.version != "" {
				parsed()
				c.version = "" // as another version
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(newParsers(), text)
				parsed := 0
				began := time.Now()
				for range 40 {
					if err := use(t.Context(), c, func() { parsed++ }); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); parsed != 40 || took < (40-parseBurst/maxSize)*time.Second {
					t.Errorf("it is parsed %d times within %s", parsed, took)
				}
			})
		})
	}
	t.Run("edits of so many node groups at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newTestClient(newParsers(), entry)
			began := time.Now()
			for range 100 {
				err := c.Edit(t.Context(), "test", func(text string) (string, error) { return Nodes.Add(text, ours) })
				if err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("they wait for %s", took)
			}
		})
	})
}

// TestMappingsAreReadOnceForEachVersion has an aws-auth whose text and version do not go together.
func TestMappingsAreReadOnceForEachVersion(t *testing.T) {
	t.Parallel()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
	set := fake.NewClientset()
	set.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, m.DeepCopy(), nil
	})
	c := NewClient(set.CoreV1(), "111122223333")
	const pods, others = "arn:aws:iam::111122223333:role/pods", "arn:aws:iam::111122223333:role/others"
	for _, step := range []struct {
		version, text, role string
		want                bool
	}{
		{"1", "- rolearn: " + pods, pods, true},
		{"1", "- rolearn: " + others, pods, true}, // as it was
		{"1", "- rolearn: " + others, others, false},
		{"2", "- rolearn: " + others, pods, false},
		{"3", "- rolearn: [", others, false},
		{"4", "- rolearn: " + pods, pods, true},
	} {
		m.ResourceVersion, m.Data = step.version, map[string]string{MapRoles: step.text + "\n"}
		got, err := c.Maps(t.Context(), step.role)
		if err != nil || got != step.want {
			t.Errorf("version %s with %q: %s is let in: %t (%v), want %t", step.version, step.text, step.role, got, err,
				step.want)
		}
	}
}

// TestAnAccountParsesTwoAtATime has many clusters of an account tell of aws-auth, and look it up, at once.
func TestAnAccountParsesTwoAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clusters = 20
		var at atomic.Int64
		meet, parsers := make(chan struct{}), newParsers()
		for i := range clusters {
			c := newTestClient(parsers, "")
			parse := func() {
				at.Add(1)
				<-meet
			}
			go func() {
				if i%4 == 1 {
					p := NewPace("111122223333")
					p.parsers = parsers
					_ = p.InTurn(t.Context(), nil, parse)
					return
				}
				if i%2 == 0 {
					_ = c.Edit(t.Context(), "test", func(text string) (string, error) { parse(); return text, nil })
					return
				}
				latest := make(chan map[string]string, 1)
				latest <- nil
				close(latest)
				c.tellLatest(t.Context(), latest, func(map[string]string) { parse() })
			}()
		}
		synctest.Wait()
		if n := at.Load(); n != parsersOfAccount {
			t.Errorf("%d of an account are parsed at a time", n)
		}
		close(meet)
		synctest.Wait()
		if n := at.Load(); n != clusters {
			t.Errorf("%d of %d are parsed in the end", n, clusters)
		}
	})
}

// TestThoseWhomUsersCallParseAMiBASecond has the users of a cluster have aws-auth parsed as often as they can, with
// texts of which each takes as much as there is of one.
func TestThoseWhomUsersCallParseAMiBASecond(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a large text": strings.Repeat("#a", maxSize/2), "many values": strings.Repeat("a,", maxNodes),
		"more than there is": strings.Repeat("a", maxSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, parsed := NewPace("111122223333"), 0
				p.parsers = newParsers()
				const seconds, each = 20, 50
				for range seconds * each {
					before := parsed
					err := p.InTurn(t.Context(), map[string]string{MapRoles: text}, func() { parsed++ })
					if (err != nil) != (parsed == before) || err != nil && !errors.Is(err, ErrTooOften) {
						t.Fatal(err)
					}
					time.Sleep(time.Second / each)
				}
				if most := seconds + parseBurst/maxSize; parsed > most || parsed < seconds/2 {
					t.Errorf("it is parsed %d times, and %d at most", parsed, most)
				}
			})
		})
	}
	p := NewPace("111122223333")
	for range 100 {
		if err := p.InTurn(t.Context(), map[string]string{MapRoles: entry}, func() {}); err != nil {
			t.Fatalf("a hundred changes of an aws-auth of EKS's: %v", err)
		}
	}
}

// TestWhatMayNotBeWrittenIsRefused has an API server that refuses what an edit reads or writes, as webhooks and
// policies of its users have it do, with whatever code. It is asked once, and the text is not malformed: it may be
// written later.
func TestWhatMayNotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	webhook := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
			Message: `admission webhook "policy.example.com" denied the request: no`}}
	}
	for _, text := range []string{"", entry} { // it is created and changed
		for name, test := range map[string]struct {
			err     error
			refused bool
			asked   int
		}{
			"forbidden":                {apierrors.NewForbidden(resource, Name, errors.New("no")), true, 1},
			"a webhook without a code": {webhook(http.StatusBadRequest, ""), true, 1},
			"a webhook's conflict":     {webhook(http.StatusConflict, metav1.StatusReasonConflict), true, 1},
			"out of order":             {apierrors.NewInternalError(errors.New("no")), false, 1},
			"a conflict":               {apierrors.NewConflict(resource, Name, errors.New("no")), false, attempts},
		} {
			for _, verbs := range [][]string{{"create", "update"}, {"get"}} {
				set := fake.NewClientset()
				if text != "" {
					set = fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace,
						Name: Name}, Data: map[string]string{MapRoles: text}})
				}
				asked := 0
				for _, verb := range verbs {
					set.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
						asked++
						return true, nil, test.err
					})
				}
				err := NewClient(set.CoreV1(), "111122223333").Edit(t.Context(), "test", func(string) (string, error) {
					return "[]", nil
				})
				want := test.asked
				if verbs[0] == "get" {
					want = 1
				}
				if !client.IsAnswer(err) || client.IsRefusal(err) != test.refused || IsMalformed(err) || asked != want {
					t.Errorf("%s of %v: asked %d times: %v", name, verbs, asked, err)
				}
			}
		}
	}
}

// TestRolesAreThoseOfTheirText shows what a text maps, and that a text with which something is wrong says so.
func TestRolesAreThoseOfTheirText(t *testing.T) {
	t.Parallel()
	roles := ParseRoles("- roleARN: ' " + strings.ToUpper(ours) + " '\n- rolearn: arn:aws:iam::1:role/b\n- {}\n")
	for role, want := range map[string]bool{ours: true, "arn:aws:iam::1:role/b": true, "arn:aws:iam::1:role/c": false,
		"": false} {
		if got, err := roles.Has(role); got != want || err != nil {
			t.Errorf("%q is mapped: %t, %v", role, got, err)
		}
	}
	if roles.IsOf("") || !ParseRoles("a").IsOf("a") || ParseRoles("a").IsOf("b") {
		t.Error("texts are taken for others")
	}
	var none *Roles
	if has, err := none.Has(ours); has || err != nil || !none.IsOf("") {
		t.Errorf("without a text the role is mapped: %t, %v", has, err)
	}
	if _, err := ParseRoles("[").Has(ours); err == nil {
		t.Error("a malformed text maps roles")
	}
}
