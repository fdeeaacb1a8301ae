package networkinterface_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

func createTrunk(w *ec2test.Fixture, subnet string) *string {
	w.T.Helper()
	return awstest.Must[*ec2.CreateNetworkInterfaceOutput](w.T)(w.CreateNetworkInterface(w.Context(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet, InterfaceType: types.NetworkInterfaceCreationTypeTrunk},
	)).NetworkInterface.NetworkInterfaceId
}

func TestTrunkInterfaceAssociation(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	trunk, branch := createTrunk(w, subnet), w.NetworkInterface(subnet).NetworkInterfaceId
	request := &ec2.AssociateTrunkInterfaceInput{TrunkInterfaceId: trunk, BranchInterfaceId: branch,
		VlanId: aws.Int32(7), ClientToken: aws.String("once")}
	made := awstest.Must[*ec2.AssociateTrunkInterfaceOutput](t)(w.AssociateTrunkInterface(ctx, request))
	a := made.InterfaceAssociation
	ec2test.WantID(t, a.AssociationId, "trunk-assoc-")
	if *a.BranchInterfaceId != *branch || *a.TrunkInterfaceId != *trunk || *a.VlanId != 7 ||
		a.InterfaceProtocol != types.InterfaceProtocolTypeVlan {
		t.Errorf("the association is %+v", a)
	}
	again := awstest.Must[*ec2.AssociateTrunkInterfaceOutput](t)(w.AssociateTrunkInterface(ctx, request))
	if *again.InterfaceAssociation.AssociationId != *a.AssociationId {
		t.Error("the token of the client has made another association")
	}
	if ni := ec2test.DescribeInterface(w, branch); ni.Status != types.NetworkInterfaceStatusInUse ||
		ni.InterfaceType != types.NetworkInterfaceTypeBranch || ni.Attachment != nil {
		t.Errorf("the branch is %+v", ni)
	}
	describe := func(in *ec2.DescribeTrunkInterfaceAssociationsInput) int {
		return len(awstest.Must[*ec2.DescribeTrunkInterfaceAssociationsOutput](t)(
			w.DescribeTrunkInterfaceAssociations(ctx, in)).InterfaceAssociations)
	}
	for _, in := range []*ec2.DescribeTrunkInterfaceAssociationsInput{
		{}, {AssociationIds: []string{*a.AssociationId}},
		{Filters: []types.Filter{ec2test.Filter("interface-protocol", "VLAN"),
			ec2test.Filter("trunk-interface-association.trunk-interface-id", *trunk)}},
	} {
		if n := describe(in); n != 1 {
			t.Errorf("%+v: %d associations", in, n)
		}
	}

	disassociate := &ec2.DisassociateTrunkInterfaceInput{AssociationId: a.AssociationId}
	awstest.Must[*ec2.DisassociateTrunkInterfaceOutput](t)(w.DisassociateTrunkInterface(ctx, disassociate))
	_, err := w.DisassociateTrunkInterface(ctx, disassociate)
	awstest.WantCode(t, err, "InvalidAssociationID.NotFound")
	if ni := ec2test.DescribeInterface(w, branch); ni.Status != types.NetworkInterfaceStatusAvailable {
		t.Errorf("the interface that was a branch is %s", ni.Status)
	}

	// An association ends with the trunk.
	request.ClientToken = nil
	awstest.Must[*ec2.AssociateTrunkInterfaceOutput](t)(w.AssociateTrunkInterface(ctx, request))
	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: trunk}))
	if n := describe(&ec2.DescribeTrunkInterfaceAssociationsInput{}); n != 0 {
		t.Errorf("without a trunk there are %d associations", n)
	}
	if ni := ec2test.DescribeInterface(w, branch); ni.Status != types.NetworkInterfaceStatusAvailable ||
		ni.InterfaceType != types.NetworkInterfaceTypeInterface {
		t.Errorf("without a trunk the interface is %+v", ni)
	}
}

func TestTrunkInterfaceRefusals(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	a, b := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "b")
	trunk := createTrunk(w, a)
	branch, other, far := w.NetworkInterface(a).NetworkInterfaceId, w.NetworkInterface(a).NetworkInterfaceId,
		w.NetworkInterface(b).NetworkInterfaceId
	associate := func(trunk, branch *string, vlan *int32) error {
		_, err := w.AssociateTrunkInterface(ctx, &ec2.AssociateTrunkInterfaceInput{TrunkInterfaceId: trunk,
			BranchInterfaceId: branch, VlanId: vlan})
		return err
	}
	if err := associate(trunk, branch, aws.Int32(1)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err  error
		code string
	}{
		"no VLAN":               {associate(trunk, other, nil), "MissingParameter"},
		"VLAN 0":                {associate(trunk, other, aws.Int32(0)), "InvalidParameterValue"},
		"VLAN 4095":             {associate(trunk, other, aws.Int32(4095)), "InvalidParameterValue"},
		"a VLAN that is used":   {associate(trunk, other, aws.Int32(1)), "InvalidParameterValue"},
		"a branch that is used": {associate(trunk, branch, aws.Int32(2)), "InvalidNetworkInterface.InUse"},
		"a branch as a trunk":   {associate(branch, other, aws.Int32(2)), "InvalidParameterValue"},
		"a trunk as a branch":   {associate(trunk, createTrunk(w, a), aws.Int32(2)), "InvalidParameterValue"},
		"another zone":          {associate(trunk, far, aws.Int32(2)), "InvalidParameterCombination"},
		"no such trunk": {associate(aws.String("eni-0123456789abcdef0"), other, aws.Int32(2)),
			"InvalidNetworkInterfaceID.NotFound"},
		"no such branch": {associate(trunk, aws.String("eni-0123456789abcdef0"), aws.Int32(2)),
			"InvalidNetworkInterfaceID.NotFound"},
	} {
		t.Run(name, func(t *testing.T) { awstest.WantCode(t, test.err, test.code) })
	}
	_, err := w.AssociateTrunkInterface(ctx, &ec2.AssociateTrunkInterfaceInput{TrunkInterfaceId: trunk,
		BranchInterfaceId: other, GreKey: aws.Int32(1)})
	awstest.WantCode(t, err, "UnsupportedOperation")
	_, err = w.DescribeTrunkInterfaceAssociations(ctx, &ec2.DescribeTrunkInterfaceAssociationsInput{
		AssociationIds: []string{"trunk-assoc-0123456789abcdef0"}})
	awstest.WantCode(t, err, "InvalidAssociationID.NotFound")
}

// TestAssociationsAreListedOnce asks for one association many times: the interfaces of the region are read once.
func TestAssociationsAreListedOnce(t *testing.T) {
	w := ec2test.New(t)
	ctx := w.Context()
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	made := awstest.Must[*ec2.AssociateTrunkInterfaceOutput](t)(w.AssociateTrunkInterface(ctx,
		&ec2.AssociateTrunkInterfaceInput{TrunkInterfaceId: createTrunk(w, subnet),
			BranchInterfaceId: w.NetworkInterface(subnet).NetworkInterfaceId, VlanId: aws.Int32(1)}))
	for range 50 {
		w.NetworkInterface(subnet)
	}
	ids := slices.Repeat([]string{*made.InterfaceAssociation.AssociationId}, 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := awstest.Must[*ec2.DescribeTrunkInterfaceAssociationsOutput](t)(w.DescribeTrunkInterfaceAssociations(ctx,
		&ec2.DescribeTrunkInterfaceAssociationsInput{AssociationIds: ids}))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 || len(out.InterfaceAssociations) != 1 {
		t.Errorf("%d associations took %d MiB", len(out.InterfaceAssociations), n>>20)
	}
}
