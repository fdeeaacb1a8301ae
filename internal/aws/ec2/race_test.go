package ec2_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// processes returns clients of two daemons that share the store.
func processes(w *ec2test.Fixture) [2]*ec2.Client {
	return [2]*ec2.Client{w.Client, w.NewClient(w.Daemon(), ec2test.Region)}
}

// callAtOnce makes n calls from two processes at the same time and counts their error codes; success is "".
func callAtOnce(w *ec2test.Fixture, n int, call func(c *ec2.Client, i int) error) map[string]int {
	w.T.Helper()
	clients := processes(w)
	codes := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := call(clients[i%2], i); err != nil {
				codes[i], _, _ = awstest.Failure(err)
			}
		})
	}
	all.Wait()
	count := map[string]int{}
	for _, c := range codes {
		count[c]++
	}
	return count
}

func TestNoAddressIsGivenTwice(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/28", "a") // 16 addresses, 11 of them free

	for round := range 2 {
		got := callAtOnce(w, 14, func(c *ec2.Client, _ int) error {
			_, err := c.CreateNetworkInterface(w.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})
			return err
		})
		if got[""] != 11 || got["InsufficientFreeAddressesInSubnet"] != 3 {
			t.Fatalf("round %d: 14 calls for 11 addresses ended as %v", round, got)
		}
		all := awaitInterfaces(w, 11)
		var ips []string
		for _, ni := range all {
			ips = append(ips, *ni.PrivateIpAddress)
		}
		slices.Sort(ips)
		if unique := slices.Compact(slices.Clone(ips)); len(unique) != 11 {
			t.Fatalf("addresses given: %v", ips)
		}
		if free := ec2test.CountFreeAddresses(w, subnet); free != 0 {
			t.Fatalf("%d addresses are said to be free in a full subnet", free)
		}
		for _, ni := range all {
			awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(w.Context(),
				&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId}))
		}
		if free := ec2test.CountFreeAddresses(w, subnet); free != 11 {
			t.Fatalf("%d addresses are free after all interfaces went, want 11", free)
		}
	}
}

// awaitInterfaces waits until the fixture's own process knows so many network interfaces and prefixes together, some of
// which the other process has made, and returns the interfaces.
func awaitInterfaces(w *ec2test.Fixture, want int) (all []types.NetworkInterface) {
	w.T.Helper()
	eventually.Nil(w.T, "the process knows what the other has written", func() error {
		all = awstest.Must[*ec2.DescribeNetworkInterfacesOutput](w.T)(w.DescribeNetworkInterfaces(w.Context(),
			&ec2.DescribeNetworkInterfacesInput{})).NetworkInterfaces
		known := len(all)
		for _, ni := range all {
			known += len(ni.Ipv4Prefixes)
		}
		if known != want {
			return fmt.Errorf("it knows %d network interfaces and prefixes, and there should be %d", known, want)
		}
		return nil
	})
	return all
}

func TestPrefixesAndAddressesNeverMeet(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	// four blocks of 16, of which the middle two can be prefixes
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/26", "a")
	prefixed := w.NetworkInterface(subnet)
	got := callAtOnce(w, 40, func(c *ec2.Client, i int) error {
		if i%4 == 0 {
			_, err := c.AssignPrivateIpAddresses(w.Context(),
				&ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: prefixed.NetworkInterfaceId,
					Ipv4PrefixCount: aws.Int32(1)})
			return err
		}
		_, err := c.CreateNetworkInterface(w.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})
		return err
	})
	used := map[string]int{}
	prefixes := 0
	for _, ni := range awaitInterfaces(w, 1+got[""]) {
		for _, a := range ni.PrivateIpAddresses {
			used[*a.PrivateIpAddress]++
		}
		for _, p := range ni.Ipv4Prefixes {
			prefixes++
			var last int
			fmt.Sscanf(*p.Ipv4Prefix, "10.0.0.%d/28", &last)
			for i := range 16 {
				used[fmt.Sprintf("10.0.0.%d", last+i)]++
			}
		}
	}
	for ip, n := range used {
		if n != 1 {
			t.Errorf("%s has %d users", ip, n)
		}
	}
	if want := int32(59 - len(used)); ec2test.CountFreeAddresses(w, subnet) != want {
		t.Errorf(
			"%d addresses are free, want %d; calls ended as %v with %d prefixes",
			ec2test.CountFreeAddresses(w, subnet), want, got, prefixes,
		)
	}
}

func TestSubnetsOfOneVPCNeverOverlap(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	got := callAtOnce(w, 8, func(c *ec2.Client, i int) error {
		_, err := c.CreateSubnet(w.Context(), &ec2.CreateSubnetInput{VpcId: &vpc,
			CidrBlock: aws.String(fmt.Sprintf("10.0.0.0/%d", 20+i%4))})
		return err
	})
	if got[""] != 1 || got["InvalidSubnet.Conflict"] != 7 {
		t.Errorf("eight overlapping subnets at once ended as %v", got)
	}
}

func TestOneGroupOfAName(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	got := callAtOnce(w, 6, func(c *ec2.Client, _ int) error {
		_, err := c.CreateSecurityGroup(w.Context(), &ec2.CreateSecurityGroupInput{VpcId: &vpc,
			GroupName: aws.String("web"), Description: aws.String("x")})
		return err
	})
	if got[""] != 1 || got["InvalidGroup.Duplicate"] != 5 {
		t.Errorf("six groups of one name at once ended as %v", got)
	}
}

func TestNothingIsMadeInWhatIsDeleted(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	for range 5 {
		vpc := w.VPC("10.0.0.0/16")
		subnet, group := w.Subnet(vpc, "10.0.0.0/24", "a"), w.SecurityGroup(vpc, "web")
		callAtOnce(w, 3, func(c *ec2.Client, i int) (err error) {
			switch i {
			case 0:
				_, err = c.CreateNetworkInterface(w.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
					Groups: []string{group}})
			case 1:
				_, err = c.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: &subnet})
			case 2:
				_, err = c.DeleteSecurityGroup(w.Context(), &ec2.DeleteSecurityGroupInput{GroupId: &group})
			}
			return err
		})
		in := []types.Filter{ec2test.Filter("vpc-id", vpc)}
		for _, ni := range awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(w.Context(),
			&ec2.DescribeNetworkInterfacesInput{Filters: in})).NetworkInterfaces {
			if _, err := w.DescribeSubnets(w.Context(),
				&ec2.DescribeSubnetsInput{SubnetIds: []string{*ni.SubnetId}}); err != nil {
				t.Errorf("an interface is in a subnet that is gone: %v", err)
			}
			if len(ni.Groups) != 1 {
				t.Errorf("an interface has a group that is gone")
			}
		}
	}
}

func TestClientTokenCreatesOnce(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	in := ec2.CreateNetworkInterfaceInput{SubnetId: &subnet, ClientToken: aws.String("once"),
		Description: aws.String("same")}
	if got := callAtOnce(w, 6, func(c *ec2.Client, _ int) error {
		_, err := c.CreateNetworkInterface(w.Context(),
			&in)
		return err
	}); got[""] != 6 {
		t.Errorf("six calls with one token ended as %v", got)
	}
	all := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(w.Context(),
		&ec2.DescribeNetworkInterfacesInput{})).NetworkInterfaces
	if len(all) != 1 {
		t.Fatalf("%d interfaces from one token, want 1", len(all))
	}
	other := in
	other.Description = aws.String("other")
	_, err := w.CreateNetworkInterface(w.Context(), &other)
	awstest.WantCode(t, err, "IdempotentParameterMismatch")

	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(w.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: all[0].NetworkInterfaceId}))
	again := awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(
		w.CreateNetworkInterface(w.Context(), &in),
	).NetworkInterface
	if *again.NetworkInterfaceId == *all[0].NetworkInterfaceId {
		t.Errorf("the token gives what was deleted")
	}
}
