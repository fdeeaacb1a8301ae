package application

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// TestZonesShareExpressions has the same expression twice, and then no more.
func TestZonesShareExpressions(t *testing.T) {
	t.Parallel()
	one, size, err := expression("^/zones-[a-z]+$", "(?i)")
	if err != nil || size < 10 {
		t.Fatal(size, err)
	}
	two, _, err := expression("^/zones-[a-z]+$", "(?i)")
	if err != nil || one != two {
		t.Errorf("they are compiled twice: %v", err)
	}
	runtime.KeepAlive(one)
	eventually.True(t, "the expression is forgotten", func() bool {
		runtime.GC()
		compiled.Lock()
		defer compiled.Unlock()
		_, there := compiled.byText["(?i)(?:^/zones-[a-z]+$)"]
		return !there
	})
}

// TestLongMatchesTakeTurns has an account with as many requests under way that take many steps as it may have. It does
// not run in parallel, as the turns are of the process.
func TestLongMatchesTakeTurns(t *testing.T) {
	spec := Listener{LoadBalancer: "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/app/a/1",
		Attributes: DefaultAttributes(), AccessLog: true, Rules: []Rule{
			{Priority: "1", Conditions: []Condition{{Field: FieldPath, Regex: []string{"(?:[^a-z]?){500}z"}}},
				Actions: []Action{fixed("no")}}, defaultRule(fixed("yes"))}}
	r := newRig(t, spec)
	var release []func()
	defer func() {
		for _, f := range release {
			f()
		}
	}()
	for {
		f, ok := turns.TryAcquire("111122223333")
		if !ok {
			break
		}
		release = append(release, f)
	}
	if _, text := get(t, r.client(false), "http://a.example/short"); text != "yes" {
		t.Errorf("a request of few steps: %q", text)
	}
	long := "GET /" + strings.Repeat("A", 8<<10) + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, long)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if got := fields(r.logged(1)); got[8] != strconv.Itoa(statusClientClosed) {
		t.Errorf("a request of many steps takes no turn: %s", got)
	}
	release[0]()
	release = release[1:]
	if got := r.raw(long); !strings.HasSuffix(got, "yes") {
		t.Errorf("a request of many steps that has its turn: %q", got)
	}
}

// TestBrokenRulesGiveNothingAway has a rule that cannot be compiled before one that would take its requests.
func TestBrokenRulesGiveNothingAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("open"))}})
	spec := r.spec
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/a*"}}},
		Actions: []Action{fixed("guarded")}, HostRewrite: &Rewrite{Regex: "("}}}, spec.Rules...)
	if err := r.Update(spec); err == nil {
		t.Error("nobody is told that the rule is broken")
	}
	for path, want := range map[string]int{"/a": 500, "/b": 200} {
		if answer, _ := get(t, r.client(false), "http://a.example"+path); answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
}
