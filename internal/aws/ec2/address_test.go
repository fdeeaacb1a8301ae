package ec2_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// An account has half of the public addresses at most, in all regions; those of others do not count.
func TestPublicAddressesOfAnAccount(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	// 256, without those of the hosts of machines
	w.Service.NetworkInterfaces.PublicRange = netip.MustParsePrefix("198.18.0.0/23")
	addresses := record.PublicIPs(w.Store)
	for account, many := range map[string]int{ec2test.Account: 127, "444455556666": 100} {
		var ops []store.Op
		for i := range many {
			ops = append(ops, addresses.CreateOp(store.Key(fmt.Sprintf("%s-%d", account, i)),
				record.PublicIP{Account: account, Region: "us-west-2", OwnerID: "eipalloc-1"}))
		}
		if err := w.Store.Txn(w.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	awstest.Must[*ec2.AllocateAddressOutput](t)(w.AllocateAddress(w.Context(), &ec2.AllocateAddressInput{}))
	_, err := w.AllocateAddress(w.Context(), &ec2.AllocateAddressInput{})
	awstest.WantCode(t, err, "InsufficientAddressCapacity")
}
