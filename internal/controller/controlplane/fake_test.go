package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// fakeEC2 keeps security groups and network interfaces in a file, so that they outlive a daemon
// that is killed. It knows two subnets.
type fakeEC2 struct {
	file string
	mu   *sync.Mutex
}

type fakeState struct {
	Next       int
	Groups     []ec2types.SecurityGroup
	Interfaces []ec2types.NetworkInterface
	Calls      []string
}

func newFakeEC2(file string) fakeEC2 { return fakeEC2{file: file, mu: &sync.Mutex{}} }

func (f fakeEC2) state() (s fakeState) {
	b, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			panic(err)
		}
	}
	return s
}

func (f fakeEC2) change(call string, do func(*fakeState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state()
	s.Next++
	s.Calls = append(s.Calls, call)
	do(&s)
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(f.file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(f.file+".new", f.file)
	}
	if err != nil {
		panic(err)
	}
}

func (f fakeEC2) DescribeSubnets(_ context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeSubnetsOutput, error) {
	out := &ec2.DescribeSubnetsOutput{}
	for _, id := range in.SubnetIds {
		out.Subnets = append(out.Subnets, ec2types.Subnet{SubnetId: &id, AvailabilityZone: aws.String("us-east-1" +
			id[len(id)-1:])})
	}
	return out, nil
}

func (f fakeEC2) DescribeSecurityGroups(_ context.Context, in *ec2.DescribeSecurityGroupsInput,
	_ ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	out := &ec2.DescribeSecurityGroupsOutput{}
	for _, g := range f.state().Groups {
		if slices.ContainsFunc(g.Tags, func(t ec2types.Tag) bool {
			return *t.Key == clusterTag &&
				*t.Value == in.Filters[0].Values[0]
		}) {
			out.SecurityGroups = append(out.SecurityGroups, g)
		}
	}
	return out, nil
}

func (f fakeEC2) CreateSecurityGroup(_ context.Context, in *ec2.CreateSecurityGroupInput, _ ...func(*ec2.Options)) (
	*ec2.CreateSecurityGroupOutput, error) {
	var id string
	f.change("CreateSecurityGroup", func(s *fakeState) {
		id = fmt.Sprintf("sg-%017x", s.Next)
		s.Groups = append(s.Groups, ec2types.SecurityGroup{GroupId: &id, GroupName: in.GroupName, VpcId: in.VpcId,
			Tags: in.TagSpecifications[0].Tags})
	})
	return &ec2.CreateSecurityGroupOutput{GroupId: &id}, nil
}

func (f fakeEC2) AuthorizeSecurityGroupIngress(_ context.Context, in *ec2.AuthorizeSecurityGroupIngressInput,
	_ ...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
	f.change("AuthorizeSecurityGroupIngress", func(s *fakeState) {
		for i := range s.Groups {
			if *s.Groups[i].GroupId == *in.GroupId {
				s.Groups[i].IpPermissions = append(s.Groups[i].IpPermissions, in.IpPermissions...)
			}
		}
	})
	return &ec2.AuthorizeSecurityGroupIngressOutput{}, nil
}

func (f fakeEC2) AuthorizeSecurityGroupEgress(_ context.Context, in *ec2.AuthorizeSecurityGroupEgressInput,
	_ ...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupEgressOutput, error) {
	f.change("AuthorizeSecurityGroupEgress", func(s *fakeState) {
		for i := range s.Groups {
			if *s.Groups[i].GroupId == *in.GroupId {
				s.Groups[i].IpPermissionsEgress = append(s.Groups[i].IpPermissionsEgress, in.IpPermissions...)
			}
		}
	})
	return &ec2.AuthorizeSecurityGroupEgressOutput{}, nil
}

func (f fakeEC2) DeleteSecurityGroup(_ context.Context, in *ec2.DeleteSecurityGroupInput, _ ...func(*ec2.Options)) (
	*ec2.DeleteSecurityGroupOutput, error) {
	f.change("DeleteSecurityGroup", func(s *fakeState) {
		s.Groups = slices.DeleteFunc(s.Groups, func(g ec2types.SecurityGroup) bool { return *g.GroupId == *in.GroupId })
	})
	return &ec2.DeleteSecurityGroupOutput{}, nil
}

func (f fakeEC2) DescribeNetworkInterfaces(_ context.Context, in *ec2.DescribeNetworkInterfacesInput,
	_ ...func(*ec2.Options)) (*ec2.DescribeNetworkInterfacesOutput, error) {
	out := &ec2.DescribeNetworkInterfacesOutput{}
	for _, i := range f.state().Interfaces {
		if !slices.ContainsFunc(in.Filters, func(filter ec2types.Filter) bool { return !passesFilter(i, filter) }) {
			out.NetworkInterfaces = append(out.NetworkInterfaces, i)
		}
	}
	return out, nil
}

// passesFilter reports whether an interface matches a filter. All interfaces are in one VPC.
func passesFilter(i ec2types.NetworkInterface, filter ec2types.Filter) bool {
	has := ""
	switch *filter.Name {
	case "description":
		has = aws.ToString(i.Description)
	case "requester-id":
		has = aws.ToString(i.RequesterId)
	case "attachment.instance-owner-id":
		if i.Attachment != nil {
			has = aws.ToString(i.Attachment.InstanceOwnerId)
		}
	case "vpc-id":
		return true
	default:
		panic("the fake has no filter " + *filter.Name)
	}
	return slices.ContainsFunc(filter.Values, func(pattern string) bool {
		matched, err := path.Match(pattern, has)
		return err == nil && matched
	})
}

func (f fakeEC2) CreateNetworkInterface(_ context.Context, in *ec2.CreateNetworkInterfaceInput,
	_ ...func(*ec2.Options)) (*ec2.CreateNetworkInterfaceOutput, error) {
	var made ec2types.NetworkInterface
	f.change("CreateNetworkInterface", func(s *fakeState) {
		made = ec2types.NetworkInterface{
			NetworkInterfaceId: aws.String(fmt.Sprintf("eni-%017x", s.Next)), SubnetId: in.SubnetId,
			Description: in.Description, RequesterId: aws.String("AROAEXAMPLE:" + SessionName),
			Attachment:       &ec2types.NetworkInterfaceAttachment{InstanceOwnerId: aws.String(record.EKSAccount)},
			PrivateIpAddress: aws.String(fmt.Sprintf("172.31.0.%d", s.Next)),
		}
		for _, g := range in.Groups {
			made.Groups = append(made.Groups, ec2types.GroupIdentifier{GroupId: &g})
		}
		for n := range aws.ToInt32(in.Ipv6AddressCount) {
			made.Ipv6Addresses = append(made.Ipv6Addresses, ec2types.NetworkInterfaceIpv6Address{
				Ipv6Address: aws.String(fmt.Sprintf("2001:db8::%x:%x", s.Next, n))})
		}
		s.Interfaces = append(s.Interfaces, made)
	})
	return &ec2.CreateNetworkInterfaceOutput{NetworkInterface: &made}, nil
}

func (f fakeEC2) ModifyNetworkInterfaceAttribute(_ context.Context, in *ec2.ModifyNetworkInterfaceAttributeInput,
	_ ...func(*ec2.Options)) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	f.change("ModifyNetworkInterfaceAttribute", func(s *fakeState) {
		for i := range s.Interfaces {
			if *s.Interfaces[i].NetworkInterfaceId == *in.NetworkInterfaceId {
				s.Interfaces[i].Groups = nil
				for _, g := range in.Groups {
					s.Interfaces[i].Groups = append(s.Interfaces[i].Groups, ec2types.GroupIdentifier{GroupId: &g})
				}
			}
		}
	})
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, nil
}

func (f fakeEC2) DeleteNetworkInterface(_ context.Context, in *ec2.DeleteNetworkInterfaceInput,
	_ ...func(*ec2.Options)) (*ec2.DeleteNetworkInterfaceOutput, error) {
	f.change("DeleteNetworkInterface", func(s *fakeState) {
		s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i ec2types.NetworkInterface) bool {
			return *i.NetworkInterfaceId == *in.NetworkInterfaceId
		})
	})
	return &ec2.DeleteNetworkInterfaceOutput{}, nil
}
