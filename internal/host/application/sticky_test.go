package application

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// cookies returns the Cookie header of those that an answer sets.
func cookies(answer *http.Response, names ...string) string {
	var all []string
	for _, c := range answer.Cookies() {
		if len(names) == 0 || strings.Contains(strings.Join(names, " "), c.Name) {
			all = append(all, c.Name+"="+c.Value)
		}
	}
	return strings.Join(all, "; ")
}

func TestStickiness(t *testing.T) {
	t.Parallel()
	g := groupOf("g", say(t, "a"), say(t, "b"), say(t, "c"))
	g.Stickiness = &Stickiness{Seconds: 3600}
	rig := newRig(t, forwarding(g))
	c := rig.client(false)
	answer, name := get(t, c, "http://a/")
	set := strings.Join(answer.Header["Set-Cookie"], "\n")
	for _, want := range []string{"AWSALB=", "AWSALBCORS=", "; Path=/; SameSite=None", "; Expires="} {
		if !strings.Contains(set, want) {
			t.Errorf("%q is not in the cookies %s", want, set)
		}
	}
	mine := cookies(answer)
	for range 6 {
		if _, text := get(t, c, "http://a/", "Cookie", mine); text != name {
			t.Errorf("a request with the cookie leads to %s, want %s", text, name)
		}
	}
	leads := func(what, cookie string) {
		t.Helper()
		seen := map[string]bool{}
		for range 6 {
			_, text := get(t, c, "http://a/", "Cookie", cookie)
			seen[text] = true
		}
		if len(seen) != 3 {
			t.Errorf("%s leads to %v, want to all", what, seen)
		}
	}
	leads("a forged cookie", strings.Replace(mine, "=", "=x", 2))
	rig.passed.Store(int64(3601 * time.Second))
	leads("an old cookie", mine)
	rig.passed.Store(0)
	next := rig.spec
	// A target that is draining gets no request, also not those of its clients.
	for _, gone := range g.Targets {
		next.Groups = []TargetGroup{groupOf("g")}
		next.Groups[0].Stickiness = g.Stickiness
		for _, target := range g.Targets {
			if target != gone {
				next.Groups[0].Targets = append(next.Groups[0].Targets, target)
			} else {
				next.Groups[0].Keeping = append(next.Groups[0].Keeping, target.Address)
			}
		}
		if err := rig.Update(next); err != nil {
			t.Fatal(err)
		}
		if answer, text := get(t, c, "http://a/", "Cookie", mine); text != name && cookies(answer) == "" {
			t.Error("the client gets no cookie of its new target")
		}
	}
}

func TestStickinessByTheApplication(t *testing.T) {
	t.Parallel()
	target := func(name string) Target {
		return serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				http.SetCookie(w, &http.Cookie{Name: "app", Value: "1"})
			}
			fmt.Fprint(w, name)
		})
	}
	g := groupOf("g", target("a"), target("b"))
	g.Stickiness = &Stickiness{AppCookie: "app", Seconds: 60}
	c := newRig(t, forwarding(g)).client(false)
	if answer, _ := get(t, c, "http://a/"); len(answer.Cookies()) > 0 {
		t.Errorf("a client without a session gets %v", answer.Cookies())
	}
	answer, name := get(t, c, "http://a/login")
	both := cookies(answer)
	if !strings.Contains(both, "app=1") || !strings.Contains(both, "AWSALBAPP-0=") {
		t.Fatalf("the cookies are %s", both)
	}
	for range 4 {
		answer, text := get(t, c, "http://a/", "Cookie", both)
		if text != name || !strings.Contains(cookies(answer), "AWSALBAPP-0=") {
			t.Errorf("a request of the session leads to %s with %s", text, cookies(answer))
		}
	}
	seen := map[string]bool{}
	for range 4 {
		_, text := get(t, c, "http://a/", "Cookie", cookies(answer, "AWSALBAPP-0"))
		seen[text] = true
	}
	if len(seen) != 2 {
		t.Error("without the application's cookie, requests stick")
	}
}

func TestWeightsAndGroupStickiness(t *testing.T) {
	t.Parallel()
	spec := Listener{Attributes: DefaultAttributes(), Groups: []TargetGroup{groupOf("blue", say(t, "blue")),
		groupOf("green", say(t, "green")), groupOf("none", say(t, "none")), groupOf("empty")}}
	forward := &Forward{StickySeconds: 60, Groups: []WeightedGroup{{"blue", 3}, {"green", 1}, {"none", 0}}}
	spec.Rules = []Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/empty"}}},
		Actions: []Action{{Forward: &Forward{Groups: []WeightedGroup{{"empty", 1}, {"none", 0}}}}}},
		defaultRule(Action{Forward: forward})}
	c := newRig(t, spec).client(false)
	count := map[string]int{}
	sticky := map[string]string{}
	for range 400 {
		answer, text := get(t, c, "http://a/")
		count[text]++
		sticky[text] = cookies(answer)
	}
	if count["none"] > 0 || count["blue"] < 250 || count["green"] < 60 {
		t.Errorf("400 requests go to %v", count)
	}
	if !strings.Contains(sticky["green"], "AWSALBTG=") || !strings.Contains(sticky["green"], "AWSALBTGCORS=") {
		t.Errorf("the cookies are %s", sticky["green"])
	}
	for range 20 {
		if _, text := get(t, c, "http://a/", "Cookie", sticky["green"]); text != "green" {
			t.Fatalf("a request with the cookie of green leads to %s", text)
		}
	}
	// There is no failover to another target group.
	if answer, _ := get(t, c, "http://a/empty"); answer.StatusCode != 503 {
		t.Errorf("an empty target group answers %d", answer.StatusCode)
	}
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	s, err := New(Listener{Secret: make([]byte, 32)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	s.o.now = func() time.Time { return now }
	e := &exchange{server: s}
	targets := []Target{say(t, "a"), say(t, "b"), say(t, "c")}
	count := func(change func(*TargetGroup), n int) [3]int {
		spec := groupOf(fmt.Sprint(t.Name(), n), targets...)
		change(&spec)
		s.mu.Lock()
		g := s.newGroup(spec, time.Minute)
		s.mu.Unlock()
		g.targets[1].outstanding.Store(2)
		var counts [3]int
		for range n {
			chosen := g.chooseTarget(e, nil)
			chosen.outstanding.Add(1)
			for i, target := range g.targets {
				if target == chosen {
					counts[i]++
				}
			}
		}
		return counts
	}
	if got := count(func(*TargetGroup) {}, 30); got != [3]int{10, 10, 10} {
		t.Errorf("round robin gives %v", got)
	}
	if got := count(func(g *TargetGroup) { g.Algorithm = LeastOutstanding }, 31); got[1] != 9 {
		t.Errorf("least outstanding requests gives %v to targets of which the second has 2 already", got)
	}
	for _, n := range count(func(g *TargetGroup) { g.Algorithm = WeightedRandom }, 3000) {
		if n < 800 || n > 1200 {
			t.Errorf("a target gets %d of 3000 at random", n)
		}
	}
	slow := func(age time.Duration) [3]int {
		return count(func(g *TargetGroup) {
			g.SlowStart = 100
			g.Targets = append([]Target(nil), g.Targets...)
			g.Targets[2].Since = now.Add(-age)
		}, 3000+int(age/time.Second))
	}
	if got := slow(0); got[2] != 0 {
		t.Errorf("a target that has just become healthy gets %v", got)
	}
	if got := slow(50 * time.Second); got[2] < 400 || got[2] > 600 {
		t.Errorf("half through its slow start a target gets %v", got)
	}
	if got := slow(100 * time.Second); got[2] < 1000 {
		t.Errorf("after its slow start a target gets %v", got)
	}
}
