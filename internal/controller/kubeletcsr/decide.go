package kubeletcsr

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/kube/nodename"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	nodePrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// Bounds of a request, in bytes, and of an RSA key in it: the time that checking a signature takes grows with the
// square of the key's length.
const (
	maxRequest = 64 << 10
	maxRSABits = 8192
)

// claim is the identity that a node claims.
type claim struct {
	node      string // its name
	session   string // the instance that it authenticated as, "i-…"; empty when it did not as an instance
	fargate   bool   // it authenticated as the machine of a Fargate pod, by that name
	names     []string
	addresses []netip.Addr
}

// parseRequest reads a request. It returns neither a claim nor a reason for one that is not a node's.
// The signer defines the form of valid requests:
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
func parseRequest(request *certificatesv1.CertificateSigningRequest) (c *claim, refused string) {
	spec := request.Spec
	node, isNode := strings.CutPrefix(spec.Username, nodePrefix)
	if !isNode || !slices.Contains(spec.Groups, nodesGroup) {
		return nil, ""
	}
	if len(spec.Request) > maxRequest {
		return nil, fmt.Sprintf("the request has %d bytes, and may have %d", len(spec.Request), maxRequest)
	}
	block, _ := pem.Decode(spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, "the request holds no PEM block CERTIFICATE REQUEST"
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		if key, ok := r.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, fmt.Sprintf("the RSA key has %d bits, and may have %d", key.N.BitLen(), maxRSABits)
		}
		err = r.CheckSignature()
	}
	if err != nil {
		return nil, "the request cannot be read: " + record.Reason(err.Error())
	}
	usages := slices.Sorted(slices.Values(spec.Usages))
	withoutRSA := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	withRSA := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageServerAuth}
	switch {
	case r.Subject.CommonName != spec.Username:
		return nil, fmt.Sprintf("the subject's common name is %q; %s can only ask for its own certificate",
			r.Subject.CommonName, spec.Username)
	case !slices.Equal(r.Subject.Organization, []string{nodesGroup}):
		return nil, fmt.Sprintf("the subject's organization is %q, not %s alone", r.Subject.Organization, nodesGroup)
	case len(r.EmailAddresses) > 0 || len(r.URIs) > 0:
		return nil, "subject alternative names can only be DNS names and IP addresses"
	case len(r.DNSNames) == 0 && len(r.IPAddresses) == 0:
		return nil, "the request has no subject alternative name"
	case !slices.Equal(usages, withoutRSA) && !slices.Equal(usages, withRSA):
		return nil,
			fmt.Sprintf(
				"the usages are %q; a kubelet serves with digital signature, server auth and, for an RSA key, key "+
					"encipherment", spec.Usages)
	}
	c = &claim{node: node, names: r.DNSNames}
	if s := spec.Extra["sessionName"]; len(s) == 1 && strings.HasPrefix(s[0], "i-") {
		c.session = s[0]
	} else if len(s) == 1 && s[0] == node && strings.HasPrefix(node, fargatenode.NamePrefix) {
		c.fargate = true
	}
	for _, ip := range r.IPAddresses {
		address, _ := netip.AddrFromSlice(ip)
		c.addresses = append(c.addresses, address.Unmap())
	}
	return c, ""
}

// instance has EC2's data about an instance that could be the node.
type instance struct {
	id        string
	names     []string // lower case
	addresses []netip.Addr
}

// instances returns those in the cluster's VPC that bear the node's name, or that it authenticated as. At most one
// does, except while an address moves between instances.
func (c *Controller) instances(ctx context.Context, cluster record.Cluster, claim *claim) ([]instance, error) {
	if claim.fargate {
		return c.fargateMachines(ctx, cluster, claim)
	}
	in := &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{cluster.VPCID}},
		{Name: aws.String("instance-state-name"), Values: []string{string(ec2types.InstanceStateNamePending),
			string(ec2types.InstanceStateNameRunning)}},
	}}
	host, _, _ := strings.Cut(claim.node, ".")
	switch {
	case claim.session != "":
		in.Filters = append(in.Filters, ec2types.Filter{Name: aws.String("instance-id"),
			Values: []string{claim.session}})
	case strings.HasPrefix(host, "i-"): // a node that is named by its instance
		in.Filters = append(in.Filters, ec2types.Filter{Name: aws.String("instance-id"), Values: []string{host}})
	default:
		in.Filters = append(in.Filters, ec2types.Filter{Name: aws.String("private-dns-name"),
			Values: []string{claim.node}})
	}
	out, err := c.o.EC2(cluster.Account, cluster.Region).DescribeInstances(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("find the instance of node %s: %w", claim.node, err)
	}
	var found []instance
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			found = append(found, instanceIdentity(i))
		}
	}
	return found, nil
}

// fargateMachines returns the machines of the cluster's Fargate pods that bear the node's name: EC2 shows them to
// nobody. A pod that is over needs no certificate.
func (c *Controller) fargateMachines(ctx context.Context, cluster record.Cluster, claim *claim) ([]instance, error) {
	rows, err := record.FargatePods(c.o.Store).List(ctx, store.Prefix(cluster.Account, cluster.Region, cluster.Name))
	if err != nil {
		return nil, fmt.Errorf("find the Fargate pod of node %s: %w", claim.node, err)
	}
	var found []instance
	for _, row := range rows {
		p := row.Value
		address, err := netip.ParseAddr(p.Address)
		if p.ClusterID != cluster.ID || p.NodeName != claim.node || p.InstanceID == "" || p.Ending || p.Retired ||
			err != nil {
			continue
		}
		name := strings.ToLower(p.NodeName)
		found = append(found, instance{id: p.InstanceID, addresses: []netip.Addr{address},
			names: []string{name, strings.TrimPrefix(name, fargatenode.NamePrefix)}})
	}
	return found, nil
}

// instanceIdentity returns the names and addresses that an instance may claim.
func instanceIdentity(i ec2types.Instance) instance {
	k := instance{id: aws.ToString(i.InstanceId), names: nodename.Allowed(i)}
	address := func(s *string) {
		if a, err := netip.ParseAddr(aws.ToString(s)); err == nil {
			k.addresses = append(k.addresses, a)
		}
	}
	address(i.PublicIpAddress)
	address(i.PrivateIpAddress)
	for _, n := range i.NetworkInterfaces {
		for _, p := range n.PrivateIpAddresses {
			address(p.PrivateIpAddress)
			if p.Association != nil {
				address(p.Association.PublicIp)
			}
		}
		for _, p := range n.Ipv6Addresses {
			address(p.Ipv6Address)
		}
	}
	return k
}

// verifyAny returns the problem of the claim; empty when one of the instances has all that is claimed.
func (c *claim) verifyAny(instances []instance) (refused string) {
	if len(instances) == 0 && c.fargate {
		return "no Fargate pod of the cluster runs on " + c.node
	}
	if len(instances) == 0 {
		return fmt.Sprintf("EC2 knows no running instance in the cluster's VPC that is %s", c.node)
	}
	for _, i := range instances {
		if refused = c.verify(i); refused == "" {
			return ""
		}
	}
	return refused
}

func (c *claim) verify(i instance) string {
	if !slices.Contains(i.names, strings.ToLower(c.node)) {
		return fmt.Sprintf("node %s authenticated as instance %s, whose names are %s", c.node, i.id,
			strings.Join(i.names, ", "))
	}
	for _, n := range c.names {
		if !slices.Contains(i.names, strings.ToLower(n)) {
			return fmt.Sprintf("%q is not a name of instance %s", n, i.id)
		}
	}
	for _, a := range c.addresses {
		if !slices.Contains(i.addresses, a) {
			return fmt.Sprintf("%s is not an address of instance %s", a, i.id)
		}
	}
	return ""
}
