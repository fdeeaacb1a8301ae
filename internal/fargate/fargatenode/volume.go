package fargatenode

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// VolumeDigest returns a digest of what a persistent volume is mounted by: its handle, attributes and mount options.
// The Fargate controller and the CSI driver of the machine compare volumes by it.
func VolumeDigest(handle string, attributes map[string]string, mountOptions []string) (string, error) {
	volume := struct {
		Handle       string            `json:"handle"`
		Attributes   map[string]string `json:"attributes,omitempty"` // none and an empty map are the same to CSI
		MountOptions []string          `json:"mountOptions,omitempty"`
	}{handle, attributes, mountOptions}
	data, err := json.Marshal(volume)
	if err != nil {
		return "", fmt.Errorf("encode volume %q: %w", handle, err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
