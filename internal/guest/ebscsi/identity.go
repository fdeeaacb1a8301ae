//go:build linux

package ebscsi

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// identity is what the driver knows of its node.
type identity struct {
	instance, kind, zone, region string
	disks, interfaces            int // disks: of volumes that are not the root volume
}

// findIdentity asks the metadata service, which pods reach when the hop limit of the instance is 2; or else the node's
// object.
func findIdentity(ctx context.Context, log *slog.Logger, metadata *imds.Client, name string) (identity, error) {
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	who, err := identityFromMetadata(asking, metadata)
	cancel()
	if err == nil {
		return who, nil
	}
	log.Info("the instance metadata cannot be had, asking for the node", "error", err)
	api, clientErr := newKubernetes()
	if clientErr != nil {
		return identity{}, fmt.Errorf("who this node is: %w; %w", err, clientErr)
	}
	var node corev1.Node
	if err := api.get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return identity{}, err
	}
	return identityOfNode(node)
}

func identityFromMetadata(ctx context.Context, metadata *imds.Client) (identity, error) {
	document, err := metadata.Identity(ctx)
	if err != nil {
		return identity{}, err
	}
	who := identity{instance: document.InstanceID, kind: document.InstanceType, zone: document.AvailabilityZone,
		region: document.Region}
	macs, err := metadata.Meta(ctx, "network/interfaces/macs/")
	if err != nil {
		return identity{}, err
	}
	who.interfaces = len(strings.Fields(macs))
	mappings, err := metadata.Meta(ctx, "block-device-mapping/")
	if err != nil {
		return identity{}, err
	}
	for _, line := range strings.Fields(mappings) {
		if strings.Contains(line, "ebs") {
			who.disks++
		}
	}
	return who, nil
}

var instanceID = regexp.MustCompile(`i-[a-z0-9]+$`)

// identityOfNode reads labels and provider ID.
func identityOfNode(node corev1.Node) (identity, error) {
	who := identity{instance: instanceID.FindString(node.Spec.ProviderID), interfaces: 1}
	if who.instance == "" {
		return who, fmt.Errorf("the provider ID %q of node %s has no instance ID", node.Spec.ProviderID, node.Name)
	}
	for label, into := range map[string]*string{corev1.LabelInstanceTypeStable: &who.kind,
		corev1.LabelTopologyRegion: &who.region, corev1.LabelTopologyZone: &who.zone} {
		if *into = node.Labels[label]; *into == "" {
			return who, fmt.Errorf("node %s has no label %s", node.Name, label)
		}
	}
	return who, nil
}
