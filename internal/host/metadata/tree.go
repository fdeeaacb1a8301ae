package metadata

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// errNoEntry reports that there is nothing at a path.
var errNoEntry = errors.New("no such metadata")

// A directory holds entries by name: a string, a directory, or a function that makes the content when it is read. A
// name that ends in "/" leads to a directory that is shown without a slash, as some are on EC2.
type directory map[string]any

type content func(context.Context) ([]byte, error)

// raw is content that is not text; a label is listed and cannot be read; a hidden directory can be read and is not
// listed.
type (
	raw    []byte
	label  struct{}
	hidden directory
)

// renderListing returns the listing of a directory.
func (d directory) renderListing() string {
	names := make([]string, 0, len(d))
	for name, entry := range d {
		switch entry.(type) {
		case hidden:
			continue
		case directory:
			if !strings.HasSuffix(name, "/") {
				name += "/"
			} else {
				name = strings.TrimSuffix(name, "/")
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

// lookupPath returns the content at a path below d. Only directories may be requested with a slash at the end.
func (d directory) lookupPath(ctx context.Context, path string, slash bool) (kind string, body []byte, err error) {
	var at any = d
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		in, ok := at.(directory)
		if !ok {
			return "", nil, errNoEntry
		}
		if at, ok = in[name]; !ok {
			if at, ok = in[name+"/"]; !ok {
				return "", nil, errNoEntry
			}
		}
		if h, ok := at.(hidden); ok {
			at = directory(h)
		}
	}
	switch entry := at.(type) {
	case directory:
		return "text/plain", []byte(entry.renderListing()), nil
	case string:
		if slash {
			return "", nil, errNoEntry
		}
		return "text/plain", []byte(entry), nil
	case raw:
		return "application/octet-stream", entry, nil
	case content:
		body, err := entry(ctx)
		return "text/plain", body, err
	}
	return "", nil, errNoEntry
}

// about has the records that the metadata of an instance is made of.
type about struct {
	instance   record.Instance
	vpc        record.VPC
	interfaces []record.NetworkInterface // the primary first
	elastic    map[string][]record.Address
	groups     map[string]string // names of security groups
	subnets    map[string]record.Subnet
	tags       map[string]string
}

func (s *Service) loadRecords(ctx context.Context, i record.Instance) (about, error) {
	a := about{instance: i, elastic: map[string][]record.Address{}, groups: map[string]string{},
		subnets: map[string]record.Subnet{}}
	prefix := record.EC2Key(i.Account, i.Region, "")
	vpc, err := record.VPCs(s.o.Store).Get(ctx, prefix+i.VPCID)
	if err != nil {
		return a, err
	}
	a.vpc = vpc.Value
	attached, err := record.InterfacesByInstance(s.o.Store).List(ctx, i.Key())
	if err != nil {
		return a, err
	}
	for _, row := range attached {
		a.interfaces = append(a.interfaces, row.Value)
	}
	slices.SortFunc(a.interfaces, func(x, y record.NetworkInterface) int {
		return cmp.Or(cmp.Compare(x.Attachment.NetworkCardIndex, y.Attachment.NetworkCardIndex),
			cmp.Compare(x.Attachment.DeviceIndex, y.Attachment.DeviceIndex))
	})
	for _, eni := range a.interfaces {
		for _, id := range eni.SecurityGroupIDs {
			group, err := record.SecurityGroups(s.o.Store).Get(ctx, prefix+id)
			if err != nil {
				return a, err
			}
			a.groups[id] = group.Value.Name
		}
		subnet, err := record.Subnets(s.o.Store).Get(ctx, prefix+eni.SubnetID)
		if err != nil {
			return a, err
		}
		a.subnets[eni.SubnetID] = subnet.Value
	}
	addresses, err := record.Addresses(s.o.Store).List(ctx, prefix) // an account may have a hundred
	if err != nil {
		return a, err
	}
	for _, row := range addresses {
		if id := row.Value.NetworkInterfaceID; id != "" {
			a.elastic[id] = append(a.elastic[id], row.Value)
		}
	}
	tags, err := record.EC2TagsTable(s.o.Store).Get(ctx, i.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return a, err
	}
	a.tags = tags.Value.Tags
	return a, nil
}

// privateDomain returns the domain of the private DNS names of a region.
func privateDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

// privateName returns the private DNS name of an address.
func (a about) privateName(ip string) string {
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + privateDomain(a.instance.Region)
}

// hostname returns the private DNS name of the instance.
func (a about) hostname() string {
	if a.instance.HostnameType == ec2types.HostnameTypeResourceName {
		return a.instance.ID + "." + privateDomain(a.instance.Region)
	}
	return a.privateName(a.interfaces[0].PrivateIPs[0])
}

// publicName returns the public DNS name of a public address; empty in a VPC without DNS host names.
func (a about) publicName(ip string) string {
	if !a.vpc.EnableDNSHostnames || ip == "" {
		return ""
	}
	name := "ec2-" + strings.ReplaceAll(ip, ".", "-")
	if a.instance.Region == "us-east-1" {
		return name + ".compute-1.amazonaws.com"
	}
	return name + "." + a.instance.Region + ".compute.amazonaws.com"
}

// publicAddresses returns the public addresses of an interface, with the private ones that they are associated with.
func (a about) publicAddresses(eni record.NetworkInterface) (pairs [][2]string) {
	for _, private := range eni.PrivateIPs {
		for _, e := range a.elastic[eni.ID] {
			if e.PrivateIPAddress == private {
				pairs = append(pairs, [2]string{e.PublicIP, private})
			}
		}
		if len(pairs) == 0 && private == eni.PrivateIPs[0] && eni.PublicIP != "" {
			pairs = append(pairs, [2]string{eni.PublicIP, private})
		}
	}
	return pairs
}

// buildTree returns everything that an instance may read, below a version.
func (s *Service) buildTree(ctx context.Context, i record.Instance) (directory, error) {
	a, err := s.loadRecords(ctx, i)
	if err != nil {
		return nil, err
	}
	if len(a.interfaces) == 0 {
		return nil, errors.New("the instance has no network interface")
	}
	primary := a.interfaces[0]
	signed := func(sign func([]byte) ([]byte, error)) content {
		return func(context.Context) ([]byte, error) {
			d, err := document(i, primary.PrivateIPs[0])
			if err != nil {
				return nil, err
			}
			return sign(d)
		}
	}
	meta, err := s.buildMetaData(ctx, a)
	if err != nil {
		return nil, err
	}
	tree := directory{
		"meta-data/": meta,
		"dynamic/": directory{"instance-identity": directory{
			"document":  signed(func(d []byte) ([]byte, error) { return d, nil }),
			"signature": signed(s.secret.signature),
			"pkcs7":     signed(s.secret.signPKCS7),
			"rsa2048":   signed(s.secret.signPKCS7),
		}},
	}
	if len(i.UserData) > 0 {
		tree["user-data"] = raw(i.UserData)
	}
	return tree, nil
}

// buildMetaData returns the directory meta-data.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html#instancedata-data-categories
func (s *Service) buildMetaData(ctx context.Context, a about) (directory, error) {
	i, primary := a.instance, a.interfaces[0]
	var groups []string
	for _, id := range primary.SecurityGroupIDs {
		groups = append(groups, a.groups[id])
	}
	life := "on-demand"
	if i.Lifecycle != "" {
		life = string(i.Lifecycle)
	}
	placement := directory{"availability-zone": i.AvailabilityZone, "region": i.Region}
	if id := s.o.ZoneID(i.Region, i.AvailabilityZone); id != "" {
		placement["availability-zone-id"] = id
	}
	if i.PlacementGroup != "" {
		placement["group-name"] = i.PlacementGroup
	}
	if i.PartitionNumber > 0 {
		placement["partition-number"] = strconv.Itoa(int(i.PartitionNumber))
	}
	macs := directory{}
	for _, eni := range a.interfaces {
		macs[eni.MACAddress] = a.networkInterface(eni)
	}
	meta := directory{
		"ami-id":               i.ImageID,
		"ami-launch-index":     strconv.Itoa(int(i.LaunchIndex)),
		"ami-manifest-path":    "(unknown)",
		"block-device-mapping": blockDevices(i),
		"events": directory{
			"maintenance": directory{"history": "[]", "scheduled": "[]"},
		},
		"hostname":            a.hostname(),
		"instance-action":     "none",
		"instance-id":         i.ID,
		"instance-life-cycle": life,
		"instance-type":       string(i.InstanceType),
		"local-hostname":      a.hostname(),
		"local-ipv4":          primary.PrivateIPs[0],
		"mac":                 primary.MACAddress,
		"metrics":             directory{"vhostmd": `<?xml version="1.0" encoding="UTF-8"?>`},
		"network":             directory{"interfaces": directory{"macs": macs}},
		"placement":           placement,
		"profile":             "default-hvm",
		"reservation-id":      i.ReservationID,
		"security-groups":     strings.Join(groups, "\n"),
		"services":            directory{"domain": "amazonaws.com", "partition": "aws"},
	}
	if kind, _ := instancetype.Get(string(i.InstanceType)); kind.Hypervisor != "" {
		meta["system"] = kind.Hypervisor
	}
	if len(primary.IPv6IPs) > 0 {
		meta["ipv6"] = primary.IPv6IPs[0]
	}
	if pairs := a.publicAddresses(primary); len(pairs) > 0 {
		meta["public-ipv4"] = pairs[0][0]
		if name := a.publicName(pairs[0][0]); name != "" {
			meta["public-hostname"] = name
		}
	} else if a.vpc.EnableDNSHostnames {
		meta["public-hostname"] = ""
	}
	if i.Metadata.InstanceMetadataTags == ec2types.InstanceMetadataTagsStateEnabled {
		tags := directory{}
		for key, value := range a.tags {
			tags[key] = value
		}
		meta["tags"] = directory{"instance": tags}
	}
	for _, add := range []func(context.Context, about, directory) error{s.addProfile, s.addPublicKeys, s.addSpot,
		s.addAutoScaling} {
		if err := add(ctx, a, meta); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

// blockDevices names the devices of an instance, without their directory but for the root.
func blockDevices(i record.Instance) directory {
	image, _ := ami.Get(i.Region, i.ImageID)
	root := cmp.Or(image.RootDeviceName, "/dev/xvda")
	d := directory{"ami": strings.TrimPrefix(root, "/dev/"), "root": root}
	n := 1
	for _, b := range i.BlockDevices {
		if b.DeviceName != root {
			d["ebs"+strconv.Itoa(n)] = strings.TrimPrefix(b.DeviceName, "/dev/")
			n++
		}
	}
	return d
}

// networkInterface returns the directory network/interfaces/macs/<mac>.
func (a about) networkInterface(eni record.NetworkInterface) directory {
	subnet := a.subnets[eni.SubnetID]
	var groups, cidrs, cidrs6 []string
	for _, id := range eni.SecurityGroupIDs {
		groups = append(groups, a.groups[id])
	}
	for _, c := range a.vpc.CIDRs {
		cidrs = append(cidrs, c.CIDR)
	}
	for _, c := range a.vpc.IPv6CIDRs {
		cidrs6 = append(cidrs6, c.CIDR)
	}
	d := directory{
		"device-number":           strconv.Itoa(int(eni.Attachment.DeviceIndex)),
		"interface-id":            eni.ID,
		"local-hostname":          a.privateName(eni.PrivateIPs[0]),
		"local-ipv4s":             strings.Join(eni.PrivateIPs, "\n"),
		"mac":                     eni.MACAddress,
		"network-card":            strconv.Itoa(int(eni.Attachment.NetworkCardIndex)),
		"owner-id":                eni.Account,
		"security-group-ids":      strings.Join(eni.SecurityGroupIDs, "\n"),
		"security-groups":         strings.Join(groups, "\n"),
		"subnet-id":               eni.SubnetID,
		"subnet-ipv4-cidr-block":  subnet.CIDR,
		"vpc-id":                  eni.VPCID,
		"vpc-ipv4-cidr-block":     cidrs[0],
		"vpc-ipv4-cidr-blocks":    strings.Join(cidrs, "\n"),
		"vpc-ipv6-cidr-blocks":    strings.Join(cidrs6, "\n"),
		"ipv4-prefix":             strings.Join(eni.IPv4Prefixes, "\n"),
		"ipv6s":                   strings.Join(eni.IPv6IPs, "\n"),
		"ipv6-prefix":             strings.Join(eni.IPv6Prefixes, "\n"),
		"subnet-ipv6-cidr-blocks": "",
	}
	if subnet.IPv6 != nil {
		d["subnet-ipv6-cidr-blocks"] = subnet.IPv6.CIDR
	}
	if pairs := a.publicAddresses(eni); len(pairs) > 0 {
		associations := directory{}
		var public []string
		for _, p := range pairs {
			associations[p[0]] = p[1]
			public = append(public, p[0])
		}
		d["ipv4-associations"], d["public-ipv4s"] = associations, strings.Join(public, "\n")
		if name := a.publicName(public[0]); name != "" {
			d["public-hostname"] = name
		}
	}
	for _, name := range []string{"vpc-ipv6-cidr-blocks", "ipv4-prefix", "ipv6s", "ipv6-prefix",
		"subnet-ipv6-cidr-blocks"} {
		if d[name] == "" {
			delete(d, name)
		}
	}
	return d
}

// addProfile adds iam, for an instance with a profile.
func (s *Service) addProfile(ctx context.Context, a about, meta directory) error {
	if a.instance.InstanceProfileARN == "" {
		return nil
	}
	iam := directory{"info": content(func(ctx context.Context) ([]byte, error) {
		return s.profileInfo(ctx,
			a.instance)
	})}
	meta["iam"] = iam
	profile, err := s.profile(ctx, a.instance)
	if errors.Is(err, store.ErrNotFound) || err == nil && profile.Role == "" {
		return nil
	}
	if err != nil {
		return err
	}
	iam["security-credentials"] = directory{profile.Role: content(func(ctx context.Context) ([]byte, error) {
		return s.roleCredentials(ctx, a.instance, profile.Role)
	})}
	return nil
}

// addPublicKeys adds public-keys, for an instance with a key pair.
func (s *Service) addPublicKeys(ctx context.Context, a about, meta directory) error {
	i := a.instance
	if i.KeyName == "" {
		return nil
	}
	name, err := record.KeyPairNames(s.o.Store).Get(ctx, record.EC2Key(i.Account, i.Region, i.KeyName))
	if err == nil {
		var pair store.Row[record.KeyPair]
		if pair, err = record.KeyPairs(s.o.Store).Get(ctx, record.EC2Key(i.Account, i.Region,
			name.Value.KeyPairID)); err == nil {
			key := strings.TrimSpace(pair.Value.PublicKey)
			if strings.Count(key, " ") < 2 {
				key += " " + i.KeyName
			}
			meta["public-keys"] = directory{"0=" + i.KeyName: label{}, "0": hidden{"openssh-key": key}}
			return nil
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil // it was deleted
	}
	return err
}

// addSpot adds the interruption notice of a spot instance.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
func (s *Service) addSpot(ctx context.Context, a about, meta directory) error {
	i := a.instance
	if i.SpotInterruption.IsZero() {
		return nil
	}
	behavior := ec2types.InstanceInterruptionBehaviorTerminate
	if i.SpotInstanceRequestID != "" {
		request, err := record.SpotRequests(s.o.Store).Get(ctx, record.EC2Key(i.Account, i.Region,
			i.SpotInstanceRequestID))
		if err == nil && request.Value.Behavior != "" {
			behavior = request.Value.Behavior
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	end := i.SpotInterruption.UTC().Format(time.RFC3339)
	action, err := json.Marshal(struct {
		Action string `json:"action"`
		Time   string `json:"time"`
	}{string(behavior), end})
	if err != nil {
		return err
	}
	spot := directory{"instance-action": string(action)}
	if behavior == ec2types.InstanceInterruptionBehaviorTerminate {
		spot["termination-time"] = end
	}
	meta["spot"] = spot
	// EC2 recommends to replace an instance before it interrupts it; two minutes ahead of its end both are known.
	notice, err := json.Marshal(struct {
		At string `json:"noticeTime"`
	}{i.SpotInterruption.Add(-2 * time.Minute).UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	meta["events"].(directory)["recommendations"] = directory{"rebalance": string(notice)}
	return nil
}

// addAutoScaling adds what an Auto Scaling group is about to do with its instance.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
func (s *Service) addAutoScaling(ctx context.Context, a about, meta directory) error {
	row, err := record.AutoScalingInstances(s.o.Store).Get(ctx, a.instance.Key())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	pool := "Stopped"
	group, err := record.AutoScalingGroups(s.o.Store).Get(ctx, record.AutoScalingGroupKey(a.instance.Account,
		a.instance.Region, row.Value.GroupName))
	if err == nil && group.Value.WarmPool != nil {
		pool = string(group.Value.WarmPool.State)
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	target := targetState(string(row.Value.State))
	if row.Value.ToPool || target == "Warmed" {
		target = warmTarget(row.Value, pool)
	}
	meta["autoscaling"] = directory{"target-lifecycle-state": target}
	return nil
}

// warmTarget returns the target lifecycle state of an instance that is in a warm pool, or on its way into one. pool is
// the state in which the pool keeps its instances.
func warmTarget(i record.AutoScalingInstance, pool string) string {
	switch _, state, _ := strings.Cut(string(i.State), ":"); {
	case i.ToPool, strings.HasPrefix(state, "Pending"):
		return "Warmed:" + pool
	case strings.HasPrefix(state, "Terminat"):
		return "Warmed:Terminated"
	}
	return string(i.State)
}

// targetState returns the target lifecycle state of an instance in the given state.
func targetState(state string) string {
	phase, _, _ := strings.Cut(state, ":")
	switch {
	case phase == "Pending":
		return "InService"
	case phase == "Terminating", phase == "Terminated":
		return "Terminated"
	case phase == "EnteringStandby":
		return "Standby"
	case phase == "Detaching", phase == "Detached":
		return "Detached"
	}
	return phase
}
