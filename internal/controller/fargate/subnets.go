package fargate

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// subnet is a subnet of a profile.
type subnet struct {
	id, zone string
	free     int32 // addresses
}

// chooseSubnet returns the subnets in which the pod's machine may be, the best first, or why there is none: zones that
// the pod's affinity allows, in the order of its topology spread, then of the number of the profile's pods in each
// subnet, and then of free addresses. The choice is recorded with the pod's row; pods of an account choose one after
// the other, so that each knows of the others.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
func (p *podPass) chooseSubnet(
	ctx context.Context, profile record.FargateProfile, pod *corev1.Pod,
) ([]subnet, string, error) {
	all, err := p.c.describeSubnets(ctx, profile)
	if err != nil {
		return nil, "", err
	}
	if len(all) == 0 {
		return nil, launchBlockedMessage(profile.Name, "the subnets of the profile do not exist"), nil
	}
	allowed, err := filterByAffinity(all, pod, p.cluster.Region)
	if err != nil {
		return nil, client.Cut(err.Error()), nil //nolint:nilerr // the pod's owner is told
	}
	if len(allowed) == 0 {
		return nil, "Pod's node affinity/selector matches no Fargate node in the subnets of Fargate profile " + profile.Name,
			nil
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		// A pod that was made and given a zone after this one's list would not count. Only pods of the cluster wait for
		// its API server.
		p.c.placementLocks.Lock(p.cluster.Key())
		defer func() { _ = p.c.placementLocks.Unlock(p.cluster.Key()) }() // it is held
	}
	spreads, err := p.zoneSpreads(ctx, pod)
	if err != nil {
		return nil, "", err
	}
	p.c.placementLocks.Lock(profile.Account)
	defer func() { _ = p.c.placementLocks.Unlock(profile.Account) }() // it is held
	placed, err := p.placedPods(ctx, profile)
	if err != nil {
		return nil, "", err
	}
	ordered := orderSubnets(allowed, spreads, placed)
	if len(ordered) == 0 {
		return nil, "Pod's topology spread constraints are not satisfied by any availability zone with subnets of " +
			"Fargate profile " + profile.Name, nil
	}
	p.pod.Value.SubnetID, p.pod.Value.Zone = ordered[0].id, ordered[0].zone
	return ordered, "", p.saveCharged(ctx)
}

// describeSubnets returns the subnets of a profile that exist.
func (c *Controller) describeSubnets(ctx context.Context, profile record.FargateProfile) ([]subnet, error) {
	out, err := c.o.EC2(profile.Account, profile.Region).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: aws.String("subnet-id"), Values: profile.SubnetIDs}}})
	if err != nil {
		return nil, fmt.Errorf("describe the subnets of Fargate profile %s: %w", profile.Name, err)
	}
	var all []subnet
	for _, s := range out.Subnets {
		all = append(all, subnet{aws.ToString(s.SubnetId), aws.ToString(s.AvailabilityZone),
			aws.ToInt32(s.AvailableIpAddressCount)})
	}
	return all, nil
}

// nodeLabels returns labels that a node in a zone will have.
func nodeLabels(region, zone string) map[string]string {
	return map[string]string{
		fargate.ComputeType:                        "fargate",
		corev1.LabelOSStable:                       "linux",
		"beta.kubernetes.io/os":                    "linux",
		corev1.LabelArchStable:                     runtime.GOARCH,
		"beta.kubernetes.io/arch":                  runtime.GOARCH,
		corev1.LabelTopologyRegion:                 region,
		corev1.LabelTopologyZone:                   zone,
		"failure-domain.beta.kubernetes.io/region": region,
		"failure-domain.beta.kubernetes.io/zone":   zone,
	}
}

// filterByAffinity returns the subnets whose nodes the pod's node selector and affinity allow.
func filterByAffinity(all []subnet, pod *corev1.Pod, region string) ([]subnet, error) {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	var allowed []subnet
	for _, s := range all {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: nodeLabels(region, s.zone)}}
		ok, err := required.Match(node)
		if err != nil {
			return nil, fmt.Errorf("the pod's node affinity is not valid: %w", err)
		}
		if ok {
			allowed = append(allowed, s)
		}
	}
	return allowed, nil
}

// spread is a topology spread constraint over zones.
type spread struct {
	maxSkew int
	hard    bool
	pods    map[string]bool // the UIDs of those that count
}

// maxSpreads is the maximum number of constraints of a pod that are looked at.
const maxSpreads = 8

// zoneSpreads returns the pod's topology spread constraints over zones, with the Fargate pods that they count.
// https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
func (p *podPass) zoneSpreads(ctx context.Context, pod *corev1.Pod) ([]spread, error) {
	var all []spread
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.TopologyKey != corev1.LabelTopologyZone || len(all) == maxSpreads {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			continue // the API server accepts none
		}
		var requirements labels.Requirements
		for _, key := range c.MatchLabelKeys {
			if value, ok := pod.Labels[key]; ok {
				if r, err := labels.NewRequirement(key, "=", []string{value}); err == nil {
					requirements = append(requirements, *r)
				}
			}
		}
		selector = selector.Add(requirements...) // once: it copies and sorts what is there
		one := spread{int(c.MaxSkew), c.WhenUnsatisfiable == corev1.DoNotSchedule, map[string]bool{}}
		_, err = client.EachPage(ctx, metav1.ListOptions{LabelSelector: selector.String()},
			p.server.scheduler.CoreV1().Pods(pod.Namespace).List, func(page *corev1.PodList) {
				for i := range page.Items {
					if o := &page.Items[i]; string(o.UID) != p.uid && o.DeletionTimestamp == nil && !isTerminated(o) &&
						len(one.pods) < maxObjects {
						one.pods[strings.Clone(string(o.UID))] = true // not to hold the whole page
					}
				}
			})
		if err != nil {
			return nil, fmt.Errorf("list the pods of a topology spread constraint: %w", err)
		}
		all = append(all, one)
	}
	return all, nil
}

// placement is where the cluster's other Fargate pods are.
type placement struct {
	zones map[string]string // by the UIDs of pods
	pods  map[string]int    // the number of pods of one profile, by the IDs of subnets
}

// placedPods returns the placement of the cluster's other pods, with the number of those of a profile.
func (p *podPass) placedPods(ctx context.Context, profile record.FargateProfile) (placement, error) {
	rows, err := p.c.pods.List(ctx, store.Prefix(p.cluster.Account, p.cluster.Region, p.cluster.Name))
	if err != nil {
		return placement{}, err
	}
	placed := placement{zones: make(map[string]string, len(rows)), pods: map[string]int{}}
	for _, row := range rows {
		other := row.Value
		if other.Zone == "" || other.Ending || other.UID == p.uid {
			continue
		}
		placed.zones[other.UID] = other.Zone
		if other.ProfileID == profile.ID {
			placed.pods[other.SubnetID]++
		}
	}
	return placed, nil
}

// orderSubnets returns the subnets that satisfy the hard constraints, those first that satisfy all best.
func orderSubnets(all []subnet, spreads []spread, placed placement) []subnet {
	skews := map[string]int{} // what a pod more in a zone makes of the skews, together
	ok := map[string]bool{}
	for _, s := range all {
		skews[s.zone], ok[s.zone] = 0, true
	}
	for _, c := range spreads {
		counts := map[string]int{}
		for zone := range ok {
			counts[zone] = 0
		}
		for uid := range c.pods {
			if zone := placed.zones[uid]; zone != "" {
				if _, eligible := counts[zone]; eligible {
					counts[zone]++
				}
			}
		}
		least := -1
		for _, n := range counts {
			if least < 0 || n < least {
				least = n
			}
		}
		for zone, n := range counts {
			skew := n + 1 - least
			skews[zone] += skew
			ok[zone] = ok[zone] && (!c.hard || skew <= c.maxSkew)
		}
	}
	ordered := slices.DeleteFunc(slices.Clone(all), func(s subnet) bool { return !ok[s.zone] })
	slices.SortStableFunc(ordered, func(a, b subnet) int {
		if full := a.free == 0; full != (b.free == 0) { // subnets without addresses come last
			if full {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(skews[a.zone], skews[b.zone]), cmp.Compare(placed.pods[a.id], placed.pods[b.id]),
			cmp.Compare(b.free, a.free))
	})
	return ordered
}
