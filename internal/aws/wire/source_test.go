package wire_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestConditionsOfRequestsFromVPCs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source *wire.VPCSource
		want   string
	}{
		"outside of VPCs": {nil, "aws:SourceIp=203.0.113.5"},
		"over the internet": {&wire.VPCSource{PublicIP: "198.51.100.7"},
			"aws:SourceIp=198.51.100.7"},
		"without a way to the internet": {&wire.VPCSource{VPCID: "vpc-1", PrivateIP: "10.0.0.4"},
			"aws:SourceVpc=vpc-1 aws:VpcSourceIp=10.0.0.4"},
		"through an endpoint": {&wire.VPCSource{VPCID: "vpc-1", PrivateIP: "10.0.0.4", EndpointID: "vpce-1"},
			"aws:SourceVpc=vpc-1 aws:SourceVpce=vpce-1 aws:VpcSourceIp=10.0.0.4"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = "203.0.113.5:1234"
		if test.source != nil {
			r = r.WithContext(wire.WithVPCSource(r.Context(), *test.source))
		}
		ctx := wire.NewContext(r, wire.Caller{}, "us-east-1", nil, time.Time{})
		var got []string
		conditions := wire.GlobalConditions(ctx)
		for _, key := range slices.Sorted(maps.Keys(conditions)) {
			if strings.Contains(key, "Source") {
				got = append(got, key+"="+strings.Join(conditions[key], ","))
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %s; want %s", name, text, test.want)
		}
	}
}
