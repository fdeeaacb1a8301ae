package elb_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	classicsdk "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	service "github.com/coracle-eks/coracle/internal/aws/elb"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/elb"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const arnPrefix = "arn:aws:elasticloadbalancing:" + awstest.Region + ":" + awstest.Account + ":"

// around is what the resources of the tests are made of, by the names that properties have for it: "$vpc".
type around map[string]string

// newStack returns a stack with what its resources are made of.
func newStack(t *testing.T) (*resourcetest.Stack, around) {
	t.Helper()
	var rows *store.Store
	s := resourcetest.New(t, elb.Types, func(mux *wire.Mux, s *store.Store) {
		rows = s
		machines := ec2service.New(ec2service.Options{Store: s})
		machines.Register(mux)
		service.Register(mux, service.Options{Store: s, EC2: machines.NetworkInterfaces.Records})
	})
	s.Controllers = func() {
		t.Helper()
		for _, b := range awstest.Must[[]store.Row[record.LoadBalancer]](t)(record.LoadBalancers(rows).List(t.Context(),
			"")) {
			if _, err := record.LoadBalancerStatuses(rows).Put(t.Context(), b.Key, record.LoadBalancerStatus{
				ID: b.Value.ID, Active: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys := s.Keys
	s.Keys = func() []string { // but for what is observed, and what stays with a certificate
		return slices.DeleteFunc(keys(), func(key string) bool {
			return strings.HasPrefix(key, "loadbalancerstatuses/") || strings.HasPrefix(key, "certificateuses/")
		})
	}
	return s, surround(t, s, rows)
}

// surround makes what the resources of a stack are made of.
func surround(t *testing.T, s *resourcetest.Stack, rows *store.Store) around {
	t.Helper()
	ctx, a := t.Context(), around{}
	ec2, balancing := awsec2.NewFromConfig(s.Config), v2.NewFromConfig(s.Config)
	for _, n := range awstest.Must[*awsec2.DescribeSubnetsOutput](t)(ec2.DescribeSubnets(ctx,
		&awsec2.DescribeSubnetsInput{})).Subnets {
		letter := strings.TrimPrefix(*n.AvailabilityZone, awstest.Region)
		address := netip.MustParsePrefix(*n.CidrBlock).Addr()
		for range 100 {
			address = address.Next()
		}
		a["subnet-"+letter], a["address-"+letter], a["vpc"] = *n.SubnetId, address.String(), *n.VpcId
	}
	for _, name := range []string{"group-a", "group-b"} {
		a[name] = *awstest.Must[*awsec2.CreateSecurityGroupOutput](t)(ec2.CreateSecurityGroup(ctx,
			&awsec2.CreateSecurityGroupInput{GroupName: &name, Description: &name, VpcId: aws.String(a["vpc"])})).GroupId
	}
	for _, id := range []string{"i-0123456789abcdef0", "i-0123456789abcdef1"} {
		base := record.EC2Resource{Account: awstest.Account, Region: awstest.Region, ID: id, CreatedAt: time.Now()}
		if _, err := record.Instances(rows).Create(ctx, base.Key(), record.Instance{EC2Resource: base, VPCID: a["vpc"],
			SubnetID: a["subnet-a"], AvailabilityZone: awstest.Region + "a"}); err != nil {
			t.Fatal(err)
		}
		a["instance-"+id[len(id)-1:]] = id
	}
	for _, id := range []string{"1", "2", "3"} {
		c := record.Certificate{Account: awstest.Account, Region: awstest.Region, ID: id, CreatedAt: time.Now(),
			Type: acmtypes.CertificateTypeImported, Status: acmtypes.CertificateStatusIssued, DomainName: "example.com"}
		if _, err := record.Certificates(rows).Create(ctx, c.Key(), c); err != nil {
			t.Fatal(err)
		}
		a["certificate-"+id] = c.ARN()
	}
	for name, protocol := range map[string]types.ProtocolEnum{"web": "HTTP", "other": "HTTP", "tcp": "TCP"} {
		a["targets-"+name] = *awstest.Must[*v2.CreateTargetGroupOutput](t)(balancing.CreateTargetGroup(ctx,
			&v2.CreateTargetGroupInput{Name: &name, Protocol: protocol, Port: aws.Int32(8080),
				VpcId: aws.String(a["vpc"])})).TargetGroups[0].TargetGroupArn
	}
	for name, kind := range map[string]types.LoadBalancerTypeEnum{"application": "application", "network": "network"} {
		a[name] = *awstest.Must[*v2.CreateLoadBalancerOutput](t)(balancing.CreateLoadBalancer(ctx,
			&v2.CreateLoadBalancerInput{Name: &name, Type: kind,
				Subnets: []string{a["subnet-a"], a["subnet-b"]}})).LoadBalancers[0].LoadBalancerArn
	}
	a["listener"] = *awstest.Must[*v2.CreateListenerOutput](t)(balancing.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: aws.String(a["application"]), Protocol: "HTTPS", Port: aws.Int32(8443),
		Certificates: []types.Certificate{{CertificateArn: aws.String(a["certificate-1"])}},
		DefaultActions: []types.Action{{Type: "fixed-response",
			FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("404")}}}})).Listeners[0].ListenerArn
	s.Controllers()
	return a
}

// expand returns text with the names replaced.
func (a around) expand(text string) string {
	for _, name := range slices.Backward(slices.SortedFunc(maps.Keys(a), func(a, b string) int {
		return len(a) - len(b)
	})) {
		text = strings.ReplaceAll(text, "$"+name, a[name])
	}
	return text
}

const (
	oidc = `{"Type": "authenticate-oidc", "Order": 1, "AuthenticateOidcConfig": {"Issuer": "https://login.example.com",
		"AuthorizationEndpoint": "https://login.example.com/a", "TokenEndpoint": "https://login.example.com/t",
		"UserInfoEndpoint": "https://login.example.com/u", "ClientId": "me", "ClientSecret": "secret",
		"SessionTimeout": "3600", "AuthenticationRequestExtraParams": {"display": "page"}}}`
	forward  = `{"Type": "forward", "Order": 2, "TargetGroupArn": "$targets-web"}`
	notFound = `{"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404", "ContentType": "text/plain",
		"MessageBody": "no"}}`
	weighted = `{"Type": "forward", "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": "$targets-web", "Weight": 3},
		{"TargetGroupArn": "$targets-other", "Weight": 1}],
		"TargetGroupStickinessConfig": {"Enabled": true, "DurationSeconds": 60}}}`
)

func lives() map[string]resourcetest.Life {
	const v2Type = "AWS::ElasticLoadBalancingV2::"
	return map[string]resourcetest.Life{
		"an Application Load Balancer": {
			Type: v2Type + "LoadBalancer", Taken: true,
			Properties: `{"Name": "Own-web", "Scheme": "internal", "Type": "application", "IpAddressType": "ipv4",
				"Subnets": ["$subnet-b", "$subnet-a"], "SecurityGroups": ["$group-a"], "Tags": [{"Key": "a", "Value": "b"}],
				"LoadBalancerAttributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "30"},
				{"Key": "load_balancing.cross_zone.enabled", "Value": "true"}]}`,
			Updates: []string{
				`{"Subnets": ["$subnet-b", "$subnet-c"], "SecurityGroups": ["$group-b", "$group-a"],
				"LoadBalancerAttributes": [{"Key": "routing.http2.enabled", "Value": "false"}]}`,
				`{"SecurityGroups": null, "LoadBalancerAttributes": null, "IpAddressType": null, "Tags": null}`,
			},
			Attributes: map[string]string{"DNSName": "internal-Own-web-*", "CanonicalHostedZoneID": "Z32O12XQLNTSW2",
				"LoadBalancerArn": arnPrefix + "loadbalancer/app/Own-web/*", "LoadBalancerFullName": "app/Own-web/*",
				"LoadBalancerName": "Own-web", "SecurityGroups": `["sg-*`},
		},
		"a Network Load Balancer": {
			Type: v2Type + "LoadBalancer",
			Properties: `{"Scheme": "internal", "Type": "network", "SecurityGroups": ["$group-a"],
				"SubnetMappings": [{"SubnetId": "$subnet-b", "PrivateIPv4Address": "$address-b"}]}`,
			Updates: []string{`{"SubnetMappings": [{"SubnetId": "$subnet-a", "PrivateIPv4Address": "$address-a"},
				{"SubnetId": "$subnet-b", "PrivateIPv4Address": "$address-b"}]}`},
			Attributes: map[string]string{"CanonicalHostedZoneID": "Z2IFOLAFXWLO4F",
				"LoadBalancerFullName": "net/lake-own-1a2b3c/*"},
		},
		"a target group of HTTP": {
			Type: v2Type + "TargetGroup", Taken: true,
			Properties: `{"Name": "Own-web", "Protocol": "HTTP", "ProtocolVersion": "HTTP2", "Port": 8080, "VpcId": "$vpc",
				"TargetType": "ip", "IpAddressType": "ipv4", "HealthCheckEnabled": true, "HealthCheckProtocol": "HTTP",
				"HealthCheckPath": "/healthz", "HealthCheckPort": "8081", "HealthCheckIntervalSeconds": 10,
				"HealthCheckTimeoutSeconds": 3, "HealthyThresholdCount": 2, "UnhealthyThresholdCount": 3,
				"Matcher": {"HttpCode": "200-299"}, "Tags": [{"Key": "a", "Value": "b"}],
				"Targets": [{"Id": "$address-b", "Port": 80}, {"Id": "$address-a"}],
				"TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "5"}]}`,
			Updates: []string{
				`{"HealthCheckPath": "/", "Targets": [{"Id": "$address-a"}, {"Id": "$address-b", "Port": 81}],
				"TargetGroupAttributes": [{"Key": "slow_start.duration_seconds", "Value": "30"}]}`,
				`{"HealthCheckPath": null, "HealthCheckPort": null, "HealthCheckProtocol": null, "Matcher": null,
				"HealthCheckIntervalSeconds": null, "HealthCheckTimeoutSeconds": null, "HealthyThresholdCount": null,
				"UnhealthyThresholdCount": null, "HealthCheckEnabled": null, "TargetGroupAttributes": null, "Tags": null,
				"Targets": null}`,
			},
			Attributes: map[string]string{"TargetGroupArn": arnPrefix + "targetgroup/Own-web/*",
				"TargetGroupFullName": "targetgroup/Own-web/*", "TargetGroupName": "Own-web", "LoadBalancerArns": "[]"},
		},
		"a target group of TCP": {
			Type: v2Type + "TargetGroup",
			Properties: `{"Protocol": "TCP", "Port": 30080, "VpcId": "$vpc", "Targets": [{"Id": "$instance-0"}],
				"HealthCheckProtocol": "HTTP", "HealthCheckPath": "/up"}`,
			Updates: []string{
				`{"HealthCheckProtocol": "TCP", "HealthCheckPath": null, "Targets": [{"Id": "$instance-1"}]}`,
				`{"HealthCheckProtocol": null, "HealthCheckIntervalSeconds": 5}`,
			},
		},
		"a target group of an Application Load Balancer": {
			Type: v2Type + "TargetGroup",
			Properties: `{"Protocol": "TCP", "Port": 8443, "VpcId": "$vpc", "TargetType": "alb",
				"Targets": [{"Id": "$application"}], "HealthCheckProtocol": "HTTPS", "HealthCheckPath": "/up"}`,
			Updates: []string{
				`{"HealthCheckProtocol": null, "HealthCheckPath": null, "Targets": [{"Id": "$application", "Port": 8443}]}`,
				`{"HealthCheckIntervalSeconds": 5, "Targets": null}`,
			},
		},
		"a target group of gRPC": {
			Type: v2Type + "TargetGroup",
			Properties: `{"Protocol": "HTTP", "ProtocolVersion": "GRPC", "Port": 30080, "VpcId": "$vpc",
				"Matcher": {"GrpcCode": "0"}}`,
			Updates: []string{`{"Matcher": null}`},
		},
		"a listener of HTTP": {
			Type: v2Type + "Listener", Taken: true,
			Properties: `{"LoadBalancerArn": "$application", "Protocol": "HTTP", "Port": 80, "DefaultActions": [` + weighted +
				`], "ListenerAttributes": [{"Key": "routing.http.response.server.enabled", "Value": "false"}],
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"Port": 81, "DefaultActions": [` + notFound + `], "Tags": null}`,
				`{"Protocol": "HTTPS", "Port": 443, "Certificates": [{"CertificateArn": "$certificate-2"}],
				"SslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06", "DefaultActions": [` + oidc + `,` + forward + `],
				"ListenerAttributes": null, "MutualAuthentication": {"Mode": "off"}}`,
				`{"SslPolicy": null, "Certificates": [{"CertificateArn": "$certificate-3"}], "MutualAuthentication": null}`,
			},
			Attributes: map[string]string{"ListenerArn": arnPrefix + "listener/app/application/*"},
		},
		"a listener of TLS": {
			Type: v2Type + "Listener",
			Properties: `{"LoadBalancerArn": "$network", "Protocol": "TLS", "Port": 443, "AlpnPolicy": ["HTTP2Preferred"],
				"Certificates": [{"CertificateArn": "$certificate-2"}],
				"DefaultActions": [{"Type": "forward", "TargetGroupArn": "$targets-tcp"}]}`,
			Updates: []string{
				`{"AlpnPolicy": null}`,
				`{"Protocol": "TCP", "Certificates": null, "ListenerAttributes": [{"Key": "tcp.idle_timeout.seconds",
				"Value": "60"}]}`,
				`{"ListenerAttributes": null}`,
			},
		},
		"a rule": {
			Type: v2Type + "ListenerRule", Taken: true,
			Properties: `{"ListenerArn": "$listener", "Priority": 10, "Tags": [{"Key": "a", "Value": "b"}],
				"Conditions": [{"Field": "path-pattern", "Values": ["/a/*"]}, {"Field": "http-header",
				"HttpHeaderConfig": {"HttpHeaderName": "X-A", "Values": ["b"]}}],
				"Actions": [` + oidcOfRule + `,` + forward + `],
				"Transforms": [{"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": [{"Regex": "^/a", "Replace": "/"}]}}]}`,
			Updates: []string{
				`{"Priority": 20, "Conditions": [{"Field": "host-header", "HostHeaderConfig": {"Values": ["*.example.com"]}}],
				"Actions": [{"Type": "redirect", "RedirectConfig": {"Protocol": "HTTPS", "Port": "443", "Host": "example.org",
				"StatusCode": "HTTP_301"}}], "Transforms": null}`,
				`{"Priority": 10, "Tags": null}`,
			},
			Attributes: map[string]string{"IsDefault": "false",
				"RuleArn": arnPrefix + "listener-rule/app/application/*"},
		},
		"certificates of a listener": {
			Type: v2Type + "ListenerCertificate",
			Properties: `{"ListenerArn": "$listener", "Certificates": [{"CertificateArn": "$certificate-3"},
				{"CertificateArn": "$certificate-2"}]}`,
			Updates:    []string{`{"Certificates": [{"CertificateArn": "$certificate-3"}]}`},
			Ref:        "lake-own-1a2b3c",
			Attributes: map[string]string{"Id": "lake-own-1a2b3c"},
		},
		"a Classic Load Balancer": {
			Type: "AWS::ElasticLoadBalancing::LoadBalancer", Ref: "Own-web", Taken: true,
			Properties: `{"LoadBalancerName": "Own-web", "Scheme": "internet-facing", "Subnets": ["$subnet-b", "$subnet-a"],
				"SecurityGroups": ["$group-a"], "Tags": [{"Key": "a", "Value": "b"}], "CrossZone": true,
				"Listeners": [{"Protocol": "http", "LoadBalancerPort": "80", "InstancePort": "8080"},
				{"Protocol": "HTTPS", "LoadBalancerPort": "443", "InstancePort": "8443", "InstanceProtocol": "HTTP",
				"SSLCertificateId": "$certificate-1", "PolicyNames": ["tls"]}],
				"Policies": [{"PolicyName": "tls", "PolicyType": "SSLNegotiationPolicyType",
				"Attributes": [{"Name": "Reference-Security-Policy", "Value": "ELBSecurityPolicy-TLS-1-2-2017-01"}]},
				{"PolicyName": "proxy", "PolicyType": "ProxyProtocolPolicyType", "InstancePorts": ["8080"],
				"Attributes": [{"Name": "ProxyProtocol", "Value": "true"}]}],
				"HealthCheck": {"Target": "HTTP:8080/up", "Interval": "10", "Timeout": "5", "HealthyThreshold": "2",
				"UnhealthyThreshold": "3"}, "Instances": ["$instance-0"],
				"ConnectionDrainingPolicy": {"Enabled": true, "Timeout": 60}, "ConnectionSettings": {"IdleTimeout": 30}}`,
			Updates: []string{
				`{"Subnets": ["$subnet-c"], "SecurityGroups": ["$group-b"], "Instances": ["$instance-1"],
				"Listeners": [{"Protocol": "TCP", "LoadBalancerPort": "80", "InstancePort": "8080"},
				{"Protocol": "HTTPS", "LoadBalancerPort": "443", "InstancePort": "8443", "InstanceProtocol": "HTTP",
				"SSLCertificateId": "$certificate-2"}],
				"Policies": [{"PolicyName": "tls", "PolicyType": "SSLNegotiationPolicyType", "LoadBalancerPorts": ["443"],
				"Attributes": [{"Name": "Reference-Security-Policy", "Value": "ELBSecurityPolicy-2016-08"}]}],
				"HealthCheck": {"Target": "TCP:8080", "Interval": "20", "Timeout": "5", "HealthyThreshold": "2",
				"UnhealthyThreshold": "3"}}`,
				`{"SecurityGroups": null, "Instances": null, "Policies": null, "ConnectionDrainingPolicy": null,
				"ConnectionSettings": null, "CrossZone": null, "Tags": null}`,
			},
			Attributes: map[string]string{"DNSName": "Own-web-*", "CanonicalHostedZoneName": "Own-web-*",
				"CanonicalHostedZoneNameID": "Z32O12XQLNTSW2", "SourceSecurityGroup.GroupName": "group-a",
				"SourceSecurityGroup.OwnerAlias": awstest.Account},
		},
		"a Classic Load Balancer in zones": {
			Type: "AWS::ElasticLoadBalancing::LoadBalancer",
			Properties: `{"AvailabilityZones": ["` + awstest.Region + `b"],
				"Listeners": [{"Protocol": "TCP", "LoadBalancerPort": "80", "InstancePort": "80"}]}`,
			Updates: []string{`{"AvailabilityZones": ["` + awstest.Region + `a", "` + awstest.Region + `b"]}`},
		},
	}
}

// oidcOfRule is oidc with the timeout as rules have it: a number.
var oidcOfRule = strings.Replace(oidc, `"3600"`, `3600`, 1)

func (a around) of(life resourcetest.Life) resourcetest.Life {
	life.Properties = a.expand(life.Properties)
	life.Updates = slices.Clone(life.Updates)
	for i, text := range life.Updates {
		life.Updates[i] = a.expand(text)
	}
	return life
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, elb.Types, slices.Collect(maps.Values(lives())), nil)
}

func TestTypesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	resourcetest.CheckTypes(t, elb.Types, "AWS::ElasticLoadBalancing",
		"AWS::ElasticLoadBalancingV2::TrustStore", "AWS::ElasticLoadBalancingV2::TrustStoreRevocation")
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s, a := newStack(t)
			s.Run(a.of(life))
		})
	}
}

// TestRefusals shows what becomes of bad properties, and that nothing is made.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, a := newStack(t)
	before := s.Keys()
	const listener = `{"LoadBalancerArn": "$application", "Protocol": "HTTP", "Port": 80, "DefaultActions": [%s]}`
	const rule = `{"ListenerArn": "$listener", "Priority": %d, "Conditions": [{"Field": "path-pattern",
		"Values": ["%s"]}], "Actions": [` + notFound + `]}`
	for _, row := range []struct {
		kind, properties string
		want             resource.ErrorCode
	}{
		{"V2::LoadBalancer", `{"Name": "internal-a", "Subnets": ["$subnet-a", "$subnet-b"]}`, resource.InvalidRequest},
		{"V2::LoadBalancer", `{"Subnets": ["$subnet-a"]}`, resource.InvalidRequest},
		{"V2::LoadBalancer", `{"Subnets": ["subnet-0123456789abcdef0", "$subnet-a"]}`, resource.NotFound},
		{"V2::LoadBalancer", `{"Type": "gateway", "Subnets": ["$subnet-a"]}`, resource.InvalidRequest},
		{"V2::LoadBalancer", `{"IpAddressType": "dualstack", "Subnets": ["$subnet-a", "$subnet-b"]}`,
			resource.InvalidRequest},
		{"V2::LoadBalancer", `{"Name": "application", "Subnets": ["$subnet-a", "$subnet-b"]}`, resource.AlreadyExists},
		{"V2::LoadBalancer", `{"Subnets": ["$subnet-a", "$subnet-b"], "SecurityGroups": ["sg-0123456789abcdef0"]}`,
			resource.InvalidRequest},
		{"V2::TargetGroup", `{"Protocol": "HTTP", "Port": 80}`, resource.InvalidRequest},
		{"V2::TargetGroup", `{"TargetType": "lambda"}`, resource.InvalidRequest},
		{"V2::TargetGroup", `{"Name": "web", "Protocol": "TCP", "Port": 80, "VpcId": "$vpc"}`, resource.AlreadyExists},
		{"V2::TargetGroup", `{"Protocol": "TLS", "Port": 80, "VpcId": "$vpc"}`, resource.InvalidRequest},
		{"V2::TargetGroup", `{"Protocol": "HTTP", "Port": 80, "VpcId": "$vpc", "HealthCheckProtocol": "TCP"}`,
			resource.InvalidRequest},
		{"V2::Listener", fmt.Sprintf(listener, `{"Type": "forward", "TargetGroupArn": "$targets-tcp"}`),
			resource.InvalidRequest},
		{"V2::Listener", fmt.Sprintf(listener, `{"Type": "forward", "TargetGroupArn": "`+arnPrefix+
			`targetgroup/gone/0123456789abcdef"}`), resource.NotFound},
		{"V2::Listener", fmt.Sprintf(listener, oidc+","+forward), resource.InvalidRequest},
		{"V2::Listener", `{"LoadBalancerArn": "$application", "Protocol": "HTTPS", "Port": 8443, "Certificates":
			[{"CertificateArn": "$certificate-1"}], "DefaultActions": [` + notFound + `]}`, resource.AlreadyExists},
		{"V2::Listener", `{"LoadBalancerArn": "$application", "Protocol": "HTTPS", "Port": 443, "DefaultActions": [` +
			notFound + `]}`, resource.InvalidRequest},
		{"V2::Listener", `{"LoadBalancerArn": "$network", "Protocol": "HTTP", "Port": 80, "DefaultActions": [` +
			notFound + `]}`, resource.InvalidRequest},
		{"V2::Listener", `{"LoadBalancerArn": "$application", "Protocol": "HTTPS", "Port": 443, "MutualAuthentication":
			{"Mode": "verify"}, "Certificates": [{"CertificateArn": "$certificate-1"}], "DefaultActions": [` + notFound + `]}`,
			resource.InvalidRequest},
		{"V2::ListenerRule", fmt.Sprintf(rule, 0, "/"), resource.InvalidRequest},
		{"V2::ListenerRule", fmt.Sprintf(rule, 1, ""), resource.InvalidRequest},
		{"V2::ListenerRule", strings.Replace(fmt.Sprintf(rule, 1, "/"), "$listener", arnPrefix+
			"listener/app/gone/0123456789abcdef/0123456789abcdef", 1), resource.NotFound},
		{"::LoadBalancer", `{"Subnets": ["$subnet-a"], "Listeners": [{"Protocol": "UDP", "LoadBalancerPort": "53",
			"InstancePort": "53"}]}`, resource.InvalidRequest},
		{"::LoadBalancer", `{"Listeners": [{"Protocol": "TCP", "LoadBalancerPort": "53", "InstancePort": "53"}]}`,
			resource.InvalidRequest},
		{"::LoadBalancer", `{"Subnets": ["$subnet-a"], "AvailabilityZones": ["` + awstest.Region + `b"], "Listeners":
			[{"Protocol": "TCP", "LoadBalancerPort": "80", "InstancePort": "80"}]}`, resource.InvalidRequest},
		{"::LoadBalancer", `{"Subnets": ["$subnet-a"], "Listeners": [{"Protocol": "HTTPS", "LoadBalancerPort": "443",
			"InstancePort": "80"}]}`, resource.InvalidRequest},
		{"::LoadBalancer", `{"Subnets": ["$subnet-a"], "Listeners": [{"Protocol": "HTTPS", "LoadBalancerPort": "443",
			"InstancePort": "80", "SSLCertificateId": "arn:aws:iam::111122223333:server-certificate/a"}]}`, resource.NotFound},
	} {
		_, err := elb.Types["AWS::ElasticLoadBalancing"+row.kind].Create(t.Context(), s.Request("Own",
			a.expand(row.properties)))
		if resource.Classify(err) != row.want || err == nil {
			t.Errorf("%s %s: got %v, want %s", row.kind, row.properties, err, row.want)
		}
	}
	if now := s.Keys(); !slices.Equal(before, now) {
		t.Errorf("before there were %v, and now %v", before, now)
	}
}

// TestReplacements shows which updates a Classic Load Balancer does not survive.
func TestReplacements(t *testing.T) {
	t.Parallel()
	s, a := newStack(t)
	const kind = "AWS::ElasticLoadBalancing::LoadBalancer"
	r := s.Request("Own", a.expand(`{"Subnets": ["$subnet-a"], "Listeners": [{"Protocol": "TCP", "LoadBalancerPort": "80",
		"InstancePort": "80"}]}`))
	s.Create(kind, r)
	for _, change := range []string{
		`{"HealthCheck": {"Target": "TCP:80", "Interval": "10", "Timeout": "5", "HealthyThreshold": "2",
			"UnhealthyThreshold": "2"}}`,
		`{"AvailabilityZones": ["` + awstest.Region + `a"], "Subnets": null}`,
	} {
		called := *r
		next := maps.Clone(r.Properties)
		for name, value := range resourcetest.Properties(t, change) {
			if next[name] = value; value == nil {
				delete(next, name)
			}
		}
		if _, err := s.Update(kind, &called, next, "old"); resource.Classify(err) != resource.NotUpdatable {
			t.Errorf("%s: got %v, want a replacement", change, err)
		}
	}
	live := awstest.Must[*classicsdk.DescribeLoadBalancersOutput](t)(classicsdk.NewFromConfig(s.Config).
		DescribeLoadBalancers(t.Context(), &classicsdk.DescribeLoadBalancersInput{LoadBalancerNames: []string{
			r.PhysicalID}})).LoadBalancerDescriptions[0]
	if *live.HealthCheck.Interval != 30 || len(live.Subnets) != 1 {
		t.Errorf("the load balancer has changed: %+v", live)
	}
}

// TestDefaultsAreThoseOfTheService holds what is set when a template says no more of an attribute against a new
// resource.
func TestDefaultsAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	s, a := newStack(t)
	c, ctx := v2.NewFromConfig(s.Config), t.Context()
	ofBalancer := func(arn string) map[string]string {
		all := map[string]string{}
		for _, x := range awstest.Must[*v2.DescribeLoadBalancerAttributesOutput](t)(c.DescribeLoadBalancerAttributes(ctx,
			&v2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &arn})).Attributes {
			all[*x.Key] = *x.Value
		}
		return all
	}
	ofGroup := func(arn string) map[string]string {
		all := map[string]string{}
		for _, x := range awstest.Must[*v2.DescribeTargetGroupAttributesOutput](t)(c.DescribeTargetGroupAttributes(ctx,
			&v2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})).Attributes {
			all[*x.Key] = *x.Value
		}
		return all
	}
	for _, row := range []struct {
		kind, property, properties string
		attributes                 func(arn string) map[string]string
	}{
		{"LoadBalancer", "LoadBalancerAttributes", `{"Subnets": ["$subnet-a", "$subnet-b"]}`, ofBalancer},
		{"LoadBalancer", "LoadBalancerAttributes", `{"Subnets": ["$subnet-a"], "Type": "network"}`, ofBalancer},
		{"TargetGroup", "TargetGroupAttributes", `{"Protocol": "HTTP", "Port": 80, "VpcId": "$vpc"}`, ofGroup},
		{"TargetGroup", "TargetGroupAttributes", `{"Protocol": "TCP", "Port": 80, "VpcId": "$vpc"}`, ofGroup},
	} {
		r := s.Request("Own", a.expand(row.properties))
		kind := "AWS::ElasticLoadBalancingV2::" + row.kind
		s.Create(kind, r)
		fresh := row.attributes(r.PhysicalID)
		// As if the template had said each of them, and says none now.
		var said []any
		for key := range fresh {
			said = append(said, map[string]any{"Key": key, "Value": "another"})
		}
		bare := r.Properties
		r.Properties = maps.Clone(bare)
		r.Properties[row.property] = said
		if _, err := s.Update(kind, r, bare, "old"); err != nil {
			t.Errorf("%s: %v", row.properties, err)
		}
		if now := row.attributes(r.PhysicalID); !maps.Equal(fresh, now) {
			t.Errorf("%s: new ones have %v, and the update has set %v", row.properties, fresh, now)
		}
		s.Delete(kind, r)
	}
}

// A listener keeps the certificates that it had before a stack named them, too: when their creation fails and is rolled
// back, when an update drops them, and when the stack is deleted, also when answers were lost.
func TestCertificatesOfOthersStay(t *testing.T) {
	t.Parallel()
	s, a := newStack(t)
	ctx, c := t.Context(), v2.NewFromConfig(s.Config)
	if _, err := c.AddListenerCertificates(ctx, &v2.AddListenerCertificatesInput{ListenerArn: aws.String(a["listener"]),
		Certificates: []types.Certificate{{CertificateArn: aws.String(a["certificate-2"])}}}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, names ...string) {
		t.Helper()
		out, err := c.DescribeListenerCertificates(ctx, &v2.DescribeListenerCertificatesInput{
			ListenerArn: aws.String(a["listener"])})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, one := range out.Certificates {
			if !aws.ToBool(one.IsDefault) {
				got = append(got, *one.CertificateArn)
			}
		}
		for _, name := range names {
			want = append(want, a["certificate-"+name])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s the listener has %v, want %v", when, got, want)
		}
	}
	h := elb.Types["AWS::ElasticLoadBalancingV2::ListenerCertificate"]
	create := func(r *resource.Request) (err error) {
		for range 5 {
			var out resource.Result
			out, err = h.Create(ctx, r)
			r.PhysicalID, r.Progress, r.Retried = out.PhysicalID, out.Progress, true
			if err != nil || out.Pending == 0 {
				break
			}
		}
		return err
	}
	properties := func(names ...string) string {
		var list []string
		for _, name := range names {
			list = append(list, `{"CertificateArn": "$certificate-`+name+`"}`)
		}
		return a.expand(`{"ListenerArn": "$listener", "Certificates": [` + strings.Join(list, ", ") + `]}`)
	}

	r := s.Request("Broken", a.expand(`{"ListenerArn": "$listener", "Certificates": [{"CertificateArn": "$certificate-3"},
		{"CertificateArn": "$certificate-2"}, {"CertificateArn": "arn:aws:acm:eu-west-1:111122223333:certificate/none"}]}`))
	if err := create(r); err == nil {
		t.Error("a certificate that there is not is added")
	}
	r.Creation, r.Progress = r.Progress, nil
	if _, err := h.Delete(ctx, r); err != nil {
		t.Error(err)
	}
	check("after a rollback", "2")

	r = s.Request("Own", properties("2", "3"))
	if err := create(r); err != nil {
		t.Fatal(err)
	}
	check("after a creation", "2", "3")
	r.Progress, r.Previous, r.Properties = nil, r.Properties, resourcetest.Properties(t, properties("3"))
	if _, err := h.Update(ctx, r); err != nil {
		t.Error(err)
	}
	check("after an update that drops it", "2", "3")
	r.Progress, r.Properties = nil, r.Previous
	if _, err := h.Delete(ctx, r); err != nil {
		t.Error(err)
	}
	check("after a deletion", "2")

	// The answer to the creation is lost.
	r = s.Request("Lost", properties("2", "3"))
	out, err := h.Create(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Progress, r.Retried = out.Progress, true
	if _, err := h.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	check("before it is deleted", "2", "3")
	r.Creation, r.Progress = r.Progress, nil
	if _, err := h.Delete(ctx, r); err != nil {
		t.Error(err)
	}
	check("after the deletion of what has no name", "2")
}
