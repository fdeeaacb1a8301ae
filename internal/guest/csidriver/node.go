//go:build linux

package csidriver

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

// Node is what a driver knows of its node.
type Node struct {
	Instance, Type, Zone, Region string
	Disks, Interfaces            int // Disks: of volumes that are not the root volume
}

// FindNode asks the metadata service, which pods reach when the hop limit of the instance is 2; or else the node's
// object.
func FindNode(ctx context.Context, log *slog.Logger, metadata *imds.Client, name string) (Node, error) {
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	who, err := nodeFromMetadata(asking, metadata)
	cancel()
	if err == nil {
		return who, nil
	}
	log.Info("the instance metadata cannot be had, asking for the node", "error", err)
	api, clientErr := NewKubernetes()
	if clientErr != nil {
		return Node{}, fmt.Errorf("who this node is: %w; %w", err, clientErr)
	}
	var node corev1.Node
	if err := api.Get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return Node{}, err
	}
	return nodeOf(node)
}

func nodeFromMetadata(ctx context.Context, metadata *imds.Client) (Node, error) {
	document, err := metadata.Identity(ctx)
	if err != nil {
		return Node{}, err
	}
	who := Node{Instance: document.InstanceID, Type: document.InstanceType, Zone: document.AvailabilityZone,
		Region: document.Region}
	macs, err := metadata.Meta(ctx, "network/interfaces/macs/")
	if err != nil {
		return Node{}, err
	}
	who.Interfaces = len(strings.Fields(macs))
	mappings, err := metadata.Meta(ctx, "block-device-mapping/")
	if err != nil {
		return Node{}, err
	}
	for _, line := range strings.Fields(mappings) {
		if strings.Contains(line, "ebs") {
			who.Disks++
		}
	}
	return who, nil
}

var instanceID = regexp.MustCompile(`i-[a-z0-9]+$`)

// nodeOf reads labels and provider ID.
func nodeOf(node corev1.Node) (Node, error) {
	who := Node{Instance: instanceID.FindString(node.Spec.ProviderID), Interfaces: 1}
	if who.Instance == "" {
		return who, fmt.Errorf("the provider ID %q of node %s has no instance ID", node.Spec.ProviderID, node.Name)
	}
	for label, into := range map[string]*string{corev1.LabelInstanceTypeStable: &who.Type,
		corev1.LabelTopologyRegion: &who.Region, corev1.LabelTopologyZone: &who.Zone} {
		if *into = node.Labels[label]; *into == "" {
			return who, fmt.Errorf("node %s has no label %s", node.Name, label)
		}
	}
	return who, nil
}
