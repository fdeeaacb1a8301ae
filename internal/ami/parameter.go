package ami

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Parameters returns the public Systems Manager parameters about the images of a region, as name and value.
//
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
// https://bottlerocket.dev/en/os/latest/#/concepts/variants/
func Parameters(region string) map[string]string {
	values := make(map[string]string)
	for _, i := range catalogForRegion(region).all {
		for _, path := range i.Parameter {
			switch {
			case i.Variant == Plain:
				values[path] = i.ID
			case i.Family == Bottlerocket:
				values[path+"/image_id"] = i.ID
				values[path+"/image_version"] = i.Release
			default:
				values[path+"/image_id"] = i.ID
				values[path+"/image_name"] = i.Name
				values[path+"/release_version"] = i.Release
				values[path] = summary(i)
			}
		}
	}
	return values
}

// summary returns the value of .../recommended.
func summary(i Image) string {
	text, err := json.Marshal(struct {
		SchemaVersion  string `json:"schema_version"`
		ImageID        string `json:"image_id"`
		ImageName      string `json:"image_name"`
		ReleaseVersion string `json:"release_version"`
	}{"2", i.ID, i.Name, i.Release})
	if err != nil {
		panic(err) // four strings
	}
	return string(text)
}

// ByParameter finds the image that a public parameter names: by a path of Image.Parameter, or that of its image_id.
func ByParameter(region, parameter string) (Image, bool) {
	parameter = strings.TrimSuffix(parameter, "/image_id")
	for _, i := range catalogForRegion(region).all {
		if slices.Contains(i.Parameter, parameter) {
			return i, true
		}
	}
	return Image{}, false
}

// Names lists the names of all public parameters about images, sorted.
func Names(region string) []string { return slices.Sorted(maps.Keys(Parameters(region))) }
