//go:build linux

package balancer

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/record"
)

// application records an Application Load Balancer with a listener, a rule and two target groups of addresses.
func (f *fixture) application(now time.Time) record.LoadBalancer {
	f.Helper()
	group := func(name string, targets ...record.Target) record.TargetGroup {
		return record.TargetGroup{Account: account, Region: region, Name: name, ID: name, Protocol: "HTTP", Version: "HTTP1",
			Port: 80, TargetType: "ip", VPCID: "vpc-1", LoadBalancer: "web", Targets: targets}
	}
	blue := group("blue", record.Target{ID: "10.0.0.1", Port: 80, RegisteredAt: now},
		record.Target{ID: "10.0.0.2", Port: 80, RegisteredAt: now},
		record.Target{ID: "10.0.0.3", Port: 80, RegisteredAt: now, DeregisteredAt: now.Add(-10 * time.Second)},
		record.Target{ID: "10.0.0.4", Port: 80, RegisteredAt: now, DeregisteredAt: now.Add(-time.Minute)})
	blue.Attributes = map[string]string{"deregistration_delay.timeout_seconds": "30", "stickiness.enabled": "true",
		"stickiness.lb_cookie.duration_seconds": "60", "slow_start.duration_seconds": "30"}
	health := record.TargetHealth{Owner: "blue", Targets: map[string]record.TargetState{
		balancing.TargetName("10.0.0.1", 80): {State: record.TargetHealthy, RegisteredAt: now, HealthySince: now},
		balancing.TargetName("10.0.0.2", 80): {State: record.TargetUnhealthy, RegisteredAt: now}}}
	b := record.LoadBalancer{Account: account, Region: region, Kind: record.ApplicationLoadBalancer, Name: "web", ID: "1",
		VPCID: "vpc-1", Zones: []record.LoadBalancerZone{{Name: region + "a", PrivateIP: "10.0.0.20"},
			{Name: region + "b", PrivateIP: "10.0.1.20"}},
		Application: &record.ApplicationSecrets{Seal: make([]byte, 32), SigningKeyID: "kid", SigningKey: "pem"},
		Attributes:  map[string]string{"idle_timeout.timeout_seconds": "600", "routing.http2.enabled": "false"},
		Listeners: []record.Listener{{ID: "l", Protocol: "HTTPS", Port: 443,
			Certificates: []string{record.CertificateARN(account, region, "c"), record.CertificateARN(account, region, "gone")},
			SSLPolicy:    "ELBSecurityPolicy-TLS13-1-2-Res-2021-06",
			Actions: []record.ListenerAction{{Type: record.ActionFixedResponse,
				Fixed: &record.FixedResponseAction{Status: 404}}},
			Rules: []record.ListenerRule{{ID: "r", Priority: 7,
				Conditions: []record.RuleCondition{{Field: "query-string", Query: []record.QueryValue{{Value: "a"}}}},
				Actions: []record.ListenerAction{{Type: record.ActionForward, Sticky: 9,
					Groups: []record.WeightedGroup{{Name: "blue", Weight: 3}, {Name: "green", Weight: 1}}}}}}}}}
	_, err1 := record.TargetGroups(f.store).Create(f.Context(), blue.Key(), blue)
	green := group("green")
	_, err2 := record.TargetGroups(f.store).Create(f.Context(), green.Key(), green)
	_, err3 := record.TargetHealths(f.store).Put(f.Context(), blue.TargetHealthKey(), health)
	_, err4 := record.CertificateMaterials(f.store).Put(f.Context(), record.CertificateKey(account, region, "c"),
		record.CertificateMaterial{Certificate: []byte("leaf"), Chain: []byte("chain"), PrivateKey: []byte("key")})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		f.Fatal(err)
	}
	return b
}

// TestApplicationConfiguration derives what the process does for a listener of an Application Load Balancer.
func TestApplicationConfiguration(t *testing.T) {
	t.Parallel()
	f, now := newFixture(t), time.Now().UTC()
	b := f.application(now)
	routes, err := f.c.reader.Routes(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	specs, after, err := f.c.specs(t.Context(), b, routes[0])
	if err != nil || len(specs) != 2 || specs[1].Listen.String() != "10.0.1.20:443" || after <= 0 ||
		after > 20*time.Second {
		t.Fatalf("the process gets %+v, for %s, %v", specs, after, err)
	}
	l := specs[0].Application
	if l.Log != "app/web/1" || len(l.Rules) != 2 || l.Rules[0].Priority != "7" || l.Rules[1].Priority != "default" ||
		l.Rules[0].Conditions[0].Query[0].Key != nil || l.Rules[0].Actions[0].Forward.StickySeconds != 9 ||
		l.Rules[1].Actions[0].FixedResponse.Status != 404 || l.Identity != nil {
		t.Errorf("the rules are %+v", l.Rules)
	}
	if l.Attributes.Idle != 600 || l.Attributes.HTTP2 || l.Attributes.KeepAlive != 3600 || !l.Attributes.ServerHeader {
		t.Errorf("the attributes are %+v", l.Attributes)
	}
	if len(l.TLS.Certificates) != 1 || l.TLS.Certificates[0].Chain != "leaf\nchain" || len(l.TLS.Policy.Ciphers) != 7 {
		t.Errorf("TLS is %+v", l.TLS)
	}
	blue := l.Groups[0]
	if blue.ID != "blue" || len(blue.Targets) != 1 || blue.Targets[0].Address.String() != "10.0.0.1:80" ||
		!blue.Targets[0].Since.Equal(now) || blue.Stickiness.Seconds != 60 || blue.SlowStart != 30 ||
		!slices.Equal(blue.Keeping, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:80"),
			netip.MustParseAddrPort("10.0.0.3:80")}) {
		t.Errorf("the group is %+v", blue)
	}
	if len(l.Groups) != 2 || len(l.Groups[1].Targets) > 0 || l.Groups[1].Algorithm != application.RoundRobin {
		t.Errorf("the groups are %+v", l.Groups)
	}
}

// TestListenersKnowOfLogins has a load balancer with a listener that logs in users, and one that does not.
func TestListenersKnowOfLogins(t *testing.T) {
	t.Parallel()
	f, now := newFixture(t), time.Now().UTC()
	b := f.application(now)
	second := b.Listeners[0]
	second.ID, second.Port = "second", 8443
	b.Listeners = append(b.Listeners, second)
	for _, logsIn := range []bool{false, true} {
		if logsIn {
			b.Listeners[1].Actions = append([]record.ListenerAction{{OIDC: &record.OIDCAction{}}}, second.Actions...)
		}
		routes, err := f.c.reader.Routes(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			specs, _, err := f.c.specs(t.Context(), b, routes[i])
			if err != nil {
				t.Fatal(err)
			}
			l := specs[0].Application
			if l.Authenticates != logsIn || (l.Identity != nil) != (logsIn && i == 1) {
				t.Errorf("listener %d, logins %v: %v, %v", i, logsIn, l.Authenticates, l.Identity)
			}
		}
	}
}

// TestLogsFollowDeliveries has the process write the logs of a load balancer that are delivered, and no others.
func TestLogsFollowDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.application(time.Now().UTC())
	logs := func() *endpoint.BalancerLogs {
		t.Helper()
		routes, err := f.c.reader.Routes(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		specs, _, err := f.c.specs(t.Context(), b, routes[0])
		if err != nil {
			t.Fatal(err)
		}
		of := specs[0].Logs
		if l := specs[0].Application; l.AccessLog != (of != nil && slices.Contains(of.Types, vended.ApplicationAccess)) ||
			l.ConnectionLog != (of != nil && slices.Contains(of.Types, vended.ApplicationConnections)) {
			t.Errorf("of %+v, the listener logs %v and %v", of, l.AccessLog, l.ConnectionLog)
		}
		return of
	}
	source := record.LogDeliverySource{Account: account, Region: region, Name: "s", LogType: vended.ApplicationConnections,
		ResourceARN: b.ARN()}
	if _, err := record.LogDeliverySources(f.store).Create(t.Context(), source.Key(), source); err != nil {
		t.Fatal(err)
	}
	if got := logs(); got != nil {
		t.Errorf("without a delivery, the process writes %+v", got)
	}
	d := record.LogDelivery{Account: account, Region: region, ID: "1", Source: "s", Destination: "d"}
	if _, err := record.LogDeliveries(f.store).Create(t.Context(), d.Key(), d); err != nil {
		t.Fatal(err)
	}
	if got := logs(); got == nil || got.Name != "app/web/1" || got.Listener != "l" || got.Account != account ||
		got.ID != "1" || !slices.Equal(got.Types, []string{vended.ApplicationConnections}) {
		t.Errorf("the process writes %+v", got)
	}
}

// TestProbeVersions checks targets by HTTP/1.1, HTTP/2 and gRPC.
func TestProbeVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "application/grpc" && r.ProtoMajor == 2 {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "12")
			return
		}
		w.WriteHeader(200 + r.ProtoMajor)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	at := balancing.Member{Address: netip.MustParseAddrPort(server.Listener.Addr().String())}
	for _, c := range []struct {
		version, matcher string
		want             string
	}{
		{"HTTP1", "201", ""}, {"HTTP1", "200", "Target.ResponseCodeMismatch"}, {"HTTP2", "202", ""}, {"GRPC", "12", ""},
		{"GRPC", "0-11", "Target.ResponseCodeMismatch"},
	} {
		err := f.c.probe(t.Context(), "", balancing.Pool{Version: c.version, Check: record.HealthCheck{Protocol: "HTTP",
			Path: "/", Matcher: c.matcher, Timeout: 10}}, at)
		got := ""
		if err != nil {
			got, _ = explain(err)
		}
		if got != c.want {
			t.Errorf("%s, %s: got %q, want %q (%v)", c.version, c.matcher, got, c.want, err)
		}
	}
}
