package template

// Limits of templates.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
const (
	// MaxBody is the size of the largest template, in bytes.
	MaxBody = 1 << 20

	maxDescription   = 1024 // bytes
	maxName          = 255  // characters of a logical ID, and of names of parameters, mappings and outputs
	maxParameters    = 200
	maxParameterSize = 4096 // bytes of the value of a parameter
	maxMappings      = 200
	maxMappingKeys   = 200 // of a mapping, and attributes of a key
	maxResources     = 500
	maxOutputs       = 200
	maxDynamic       = 60 // dynamic references of a template
	maxCIDRBlocks    = 256
)

// Limits of our own, which no template that people write comes near.
const (
	maxDepth      = 100      // levels of objects and lists
	maxNumber     = 64       // characters of an integer that is not decimal
	maxConditions = 1000     // and rules
	maxExpansion  = 16 << 20 // bytes of what Fn::ForEach makes of a template
	maxEvaluation = 16 << 20 // bytes of what the functions of one resource or of all outputs make
	maxBound      = 32 << 20 // bytes of what all functions of a template make
	nodeSize      = 8        // what each value counts beside its text, in bytes
	objectSize    = 300      // what an object counts beside its members, in bytes: what a small map takes

	// MaxProperties is the size of the largest properties of a resource, in bytes of their text, and maxValues that of
	// the memory that they take.
	MaxProperties = 256 << 10
	maxValues     = 2 << 20

	// freeSize is what functions may make before memory is taken for it, and holdStep how much is taken at a time, in
	// bytes of what is counted. Each takes some holdFactor bytes: values are copied when they become properties.
	freeSize   = 64 << 10
	holdStep   = 1 << 20
	holdFactor = 2
	// loopFactor is how many bytes of memory a byte of what loops have made takes, where it is kept.
	loopFactor = 3
)
