//go:build linux

package metadata

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestRequestsReadWhatIsTheInstances has 200 interfaces and subnets in the region that are not the instance's: what a
// request reads of the store does not grow with them. Any process of a machine may send requests, many at a time.
func TestRequestsReadWhatIsTheInstances(t *testing.T) {
	t.Parallel()
	w := newRows(t)
	s := w.service()
	read := func() (bytes int64) {
		t.Helper()
		ctx := store.Metered(t.Context(), func(n int64) error { bytes += n; return nil })
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/latest/meta-data/mac", nil)
		r.RemoteAddr = "10.0.0.4:12345"
		answer := httptest.NewRecorder()
		s.serveRequest(answer, r, record.EC2Key(account, region, "vpc-1"))
		if answer.Code != http.StatusOK || answer.Body.String() != "0a:00:00:00:00:01" {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		return bytes
	}
	before := read()
	var ops []store.Op
	for i := range 200 {
		eni, subnet := fmt.Sprintf("eni-other%d", i), fmt.Sprintf("subnet-other%d", i)
		ops = append(ops,
			record.Subnets(w.store).PutOp(record.EC2Key(account, region, subnet), record.Subnet{
				EC2Resource: resource(subnet), VPCID: fmt.Sprintf("vpc-other%d", i%5), CIDR: "10.0.0.0/24"}),
			record.NetworkInterfaces(w.store).PutOp(record.EC2Key(account, region, eni), record.NetworkInterface{
				EC2Resource: resource(eni), VPCID: "vpc-1", SubnetID: "subnet-1", PrivateIPs: []string{"10.0.0.9"}}))
		if len(ops) == 100 {
			if err := w.store.Txn(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	if after := read(); after != before {
		t.Errorf("a request reads %d bytes, and read %d before others had interfaces and subnets", after, before)
	}
}

// TestRequestsReadLittle has subnets of 9 MiB in the VPC: what a request reads has a bound, because nobody is charged.
func TestRequestsReadLittle(t *testing.T) {
	t.Parallel()
	w := newRows(t)
	for i := range 9 {
		subnet := record.Subnet{EC2Resource: resource(fmt.Sprintf("subnet-long%d", i)), VPCID: "vpc-1",
			CIDR: strings.Repeat("x", 1<<20)}
		if _, err := record.Subnets(w.store).Create(t.Context(), subnet.Key(), subnet); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/latest/meta-data/mac", nil)
	r.RemoteAddr = "10.0.0.4:12345"
	answer := httptest.NewRecorder()
	w.service().serveRequest(answer, r, record.EC2Key(account, region, "vpc-1"))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
