package template

import (
	"strings"
	"testing"
)

func TestInvalidFunctions(t *testing.T) {
	t.Parallel()
	const (
		join     = "Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
		split    = "Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) a string to be split or a function that returns a string to be split."
		choose   = "Template error: Fn::Select requires a list argument with two elements: an integer index and a list"
		find     = "Template error: every Fn::FindInMap object requires three parameters, the map name, map key and the attribute for return value"
		getAtt   = "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource attribute"
		subArg   = "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as first argument, and an optional second argument to specify a mapping of values to replace in the string"
		subName  = "Template error: variable names in Fn::Sub syntax must contain only alphanumeric characters, underscores, periods, and colons"
		cidr     = "Template error: every Fn::Cidr object requires two or three parameters, (1) a CIDR block, (2) the number of CIDR blocks to generate, from 1 to 256, and (3) the number of subnet bits of the CIDR blocks."
		imported = "Template error: the attribute in Fn::ImportValue must not depend on any resources, imported values, or Fn::GetAZs"
		mappings = "Mappings: {M: {a: {b: c}}}\n"
	)
	checkInvalid(t, map[string][2]string{
		"unknown function": {vpc("{'Fn::Foo': a}"), "Template Error: Encountered unsupported function: Fn::Foo Supported functions are: [Fn::Base64, Fn::GetAtt, Fn::GetAZs, Fn::ImportValue, Fn::Join, Fn::Split, Fn::FindInMap, Fn::Select, Ref, Fn::Equals, Fn::If, Fn::Not, Condition, Fn::And, Fn::Or, Fn::Contains, Fn::EachMemberEquals, Fn::EachMemberIn, Fn::ValueOf, Fn::ValueOfAll, Fn::RefAll, Fn::Sub, Fn::Cidr]"},
		"wrong case":       {vpc("{'fn::getatt': a}"), "Template Error: Encountered unsupported function: fn::getatt Supported functions are: " + supported},
		"rule function":    {vpc("{'Fn::RefAll': a}"), "Template Error: Encountered unsupported function: Fn::RefAll Supported functions are: " + supported},
		"extension":        {vpc("{'Fn::Length': [a]}"), "Template Error: Encountered unsupported function: Fn::Length Supported functions are: " + supported},
		"loop without transform": {"Resources: {'Fn::ForEach::X': [a, [b], {}]}\n",
			"Template format error: Resource name Fn::ForEach::X is non alphanumeric."},

		"Ref of a list":     {vpc("!Ref [a]"), "Template error: All References must be of type string"},
		"Ref of nothing":    {vpc("!Ref Nope"), "Template format error: Unresolved resource dependencies [Nope] in the Resources block of the template"},
		"Refs of nothing":   {vpc("!Join ['', [!Ref B, !Ref A, !Ref B]]"), "Template format error: Unresolved resource dependencies [A, B] in the Resources block of the template"},
		"Ref of a pseudo":   {vpc("!Ref AWS::Resion"), "Template format error: Unresolved resource dependencies [AWS::Resion] in the Resources block of the template"},
		"Ref in a branch":   {"Conditions: {A: !Equals [a, a]}\n" + vpc("!If [A, x, !Ref Nope]"), "Template format error: Unresolved resource dependencies [Nope] in the Resources block of the template"},
		"Ref of a skipped":  {"Conditions: {A: !Equals [a, b]}\n" + vpc("!Ref G") + "  G: {Type: AWS::EC2::InternetGateway, Condition: A}\n", "Template format error: Unresolved resource dependencies [G] in the Resources block of the template"},
		"on a skipped":      {"Conditions: {A: !Equals [a, b]}\nResources: {V: {Type: AWS::EC2::VPC, DependsOn: G}, G: {Type: AWS::EC2::InternetGateway, Condition: A}}\n", "Template format error: Unresolved resource dependencies [G] in the Resources block of the template"},
		"GetAtt of nothing": {vpc("!GetAtt Nope.Arn"), "Template error: instance of Fn::GetAtt references undefined resource Nope"},
		"GetAtt of a parameter": {"Parameters: {P: {Type: String, Default: a}}\n" + vpc("!GetAtt P.Arn"),
			"Template error: instance of Fn::GetAtt references undefined resource P"},
		"GetAtt without attribute": {vpc("!GetAtt V"), getAtt},
		"GetAtt of one":            {vpc("{'Fn::GetAtt': [V]}"), getAtt},
		"GetAtt, empty":            {vpc("{'Fn::GetAtt': ['', a]}"), getAtt},
		"GetAtt of a number":       {vpc("{'Fn::GetAtt': [V, 1]}"), getAtt},
		"unknown attribute":        {vpc("x") + "  W: {Type: AWS::EC2::VPC, Properties: {CidrBlock: !GetAtt V.Arn}}\n", "Template error: resource V does not support attribute type Arn in Fn::GetAtt"},

		"Sub of a map":            {vpc("!Sub {a: b}"), subArg},
		"Sub of three":            {vpc("!Sub [a, {}, c]"), subArg},
		"Sub without variables":   {vpc("!Sub [a]"), subArg},
		"Sub of a function":       {vpc("!Sub [!Ref AWS::Region, {}]"), subArg},
		"Sub of a shell variable": {vpc("!Sub '${HOME:-x}'"), subName},
		"Sub of an empty name":    {vpc("!Sub '${}'"), subName},
		"Sub of nothing":          {vpc("!Sub 'a${Nope}'"), "Template format error: Unresolved resource dependencies [Nope] in the Resources block of the template"},
		"Sub of no resource":      {vpc("!Sub 'a${Nope.Arn}'"), "Template error: instance of Fn::Sub references invalid resource attribute Nope.Arn"},
		"Sub of no attribute":     {vpc("x") + "  W: {Type: AWS::EC2::VPC, Properties: {CidrBlock: !Sub '${V.Arn}'}}\n", "Template error: resource V does not support attribute type Arn in Fn::GetAtt"},
		"Sub with a list":         {vpc("!Sub ['${a}', {a: [b]}]"), "Template error: every value of the context object of every Fn::Sub object must be a string or a function that returns a string"},
		"Sub with an unused list": {vpc("!Sub ['x', {a: !Split [b, c]}]"), "Template error: every value of the context object of every Fn::Sub object must be a string or a function that returns a string"},
		"Sub with a dot":          {vpc("!Sub ['x', {a.b: c}]"), "Template error: every key of the context object of every Fn::Sub object must contain only alphanumeric characters and underscores"},
		"Sub of a list":           {vpc("!Sub '${AWS::NotificationARNs}'"), "Template error: variable AWS::NotificationARNs in Fn::Sub expression does not resolve to a string"},

		"Join of text":               {vpc("!Join [',', a]"), join},
		"Join of one":                {vpc("!Join [',']"), join},
		"Join with a list":           {vpc("!Join [[a], [b]]"), join},
		"Join of maps":               {vpc("!Join [',', [{a: b}]]"), join},
		"Join of a function of text": {vpc("!Join [',', !Ref AWS::Region]"), join},
		"Split of one":               {vpc("!Split [a]"), split},
		"Split by nothing":           {vpc("!Split ['', a]"), split},
		"Split of a list":            {vpc("!Split [a, [b]]"), split},
		"Split of a list function":   {vpc("!Split [a, !Ref AWS::NotificationARNs]"), split},
		"Select of text":             {vpc("!Select [0, a]"), choose},
		"Select of a word":           {vpc("!Select [a, [b]]"), choose},
		"Select of three":            {vpc("!Select [0, [a], b]"), choose},
		"Select behind the end":      {vpc("!Select [3, [a, b]]"), "Template error: Fn::Select cannot select nonexistent value at index 3"},
		"Select before the begin":    {vpc("!Select [-1, [a, b]]"), "Template error: Fn::Select cannot select nonexistent value at index -1"},
		"Base64 of a list":           {vpc("!Base64 [a]"), "Template error: every Fn::Base64 object must have a String-typed value."},
		"Base64 of a list function":  {vpc("{'Fn::Base64': !Split [a, b]}"), "Template error: every Fn::Base64 object must have a String-typed value."},
		"GetAZs of a list":           {vpc("!GetAZs [a]"), "Template error: every Fn::GetAZs object must have a String-typed value."},

		"FindInMap of two":           {mappings + vpc("!FindInMap [M, a]"), find},
		"FindInMap of four":          {mappings + vpc("!FindInMap [M, a, b, {DefaultValue: c}]"), find},
		"FindInMap of a list":        {mappings + vpc("!FindInMap [M, [a], b]"), find},
		"FindInMap with a Sub":       {mappings + vpc("!FindInMap [M, !Sub a, b]"), find},
		"FindInMap of no map":        {mappings + vpc("!FindInMap [N, a, b]"), "Template error: Mapping named 'N' is not present in the 'Mappings' section of template."},
		"FindInMap of no key":        {mappings + vpc("!FindInMap [M, x, b]"), "Template error: Unable to get mapping for M::x::b"},
		"FindInMap of no attribute":  {mappings + vpc("!FindInMap [M, !Ref AWS::Region, b]"), "Template error: Unable to get mapping for M::us-west-2::b"},
		"Cidr of one":                {vpc("!Cidr [10.0.0.0/16]"), cidr},
		"Cidr of text":               {vpc("!Select [0, !Cidr [10.0.0.0, 1, 8]]"), "Template error: Fn::Cidr: 10.0.0.0 is not a valid CIDR block"},
		"Cidr of none":               {vpc("!Select [0, !Cidr [10.0.0.0/16, 0, 8]]"), cidr},
		"Cidr of 257":                {vpc("!Select [0, !Cidr [10.0.0.0/8, 257, 8]]"), cidr},
		"Cidr of too many":           {vpc("!Select [0, !Cidr [10.0.0.0/24, 9, 5]]"), "Template error: Fn::Cidr: 10.0.0.0/24 has no room for 9 CIDR blocks of 5 subnet bits"},
		"Cidr of 33 bits":            {vpc("!Select [0, !Cidr [10.0.0.0/24, 1, 33]]"), cidr},
		"Cidr larger than the block": {vpc("!Select [0, !Cidr [10.0.0.0/24, 1, 9]]"), "Template error: Fn::Cidr: 10.0.0.0/24 has no room for 1 CIDR blocks of 9 subnet bits"},
		"ImportValue of a list":      {vpc("!ImportValue [a]"), "Template error: the attribute in Fn::ImportValue must be a string or a function that returns a string"},
		"ImportValue of a resource":  {vpc("{'Fn::ImportValue': !Ref V}"), imported},
		"ImportValue of a Sub":       {vpc("{'Fn::ImportValue': !Sub '${V}-x'}"), imported},
		"ImportValue of an import":   {vpc("{'Fn::ImportValue': !ImportValue a}"), imported},
		"ImportValue of zones":       {vpc("{'Fn::ImportValue': !Select [0, !GetAZs '']}"), imported},
		"Equals in a property":       {vpc("!Equals [a, b]"), "Template error: Fn::Equals cannot be partially collapsed"},
	})
}

func TestInvalidConditions(t *testing.T) {
	t.Parallel()
	const (
		and = "Template error: every Fn::And object requires a list of at least 2 and at most 10 boolean parameters."
		or  = "Template error: every Fn::Or object requires a list of at least 2 and at most 10 boolean parameters."
		not = "Template error: every Fn::Not object requires one boolean parameter."
	)
	condition := func(text string) string { return "Conditions: {C: " + text + "}\n" + gateway }
	eleven := strings.TrimSuffix(strings.Repeat("!Equals [a, b], ", 11), ", ")
	checkInvalid(t, map[string][2]string{
		"text":               {condition("x"), "Template format error: Conditions can only be boolean operations on parameters and other conditions"},
		"a Ref":              {condition("!Ref AWS::Region"), "Template format error: Conditions can only be boolean operations on parameters and other conditions"},
		"an If":              {condition("!If [C, a, b]"), "Template format error: Conditions can only be boolean operations on parameters and other conditions"},
		"name":               {"Conditions: {a-b: !Equals [a, b]}\n" + gateway, "Template format error: Condition name a-b is non alphanumeric."},
		"a resource":         {condition("!Equals [!Ref G, a]"), "Template format error: Unresolved dependencies [G]. Cannot reference resources in the Conditions block of the template"},
		"nothing":            {condition("!Equals [!Sub '${Nope}', a]"), "Template format error: Unresolved dependencies [Nope]. Cannot reference resources in the Conditions block of the template"},
		"an import":          {condition("!Equals [!ImportValue a, a]"), "Template error: Cannot use Fn::ImportValue in Conditions."},
		"Equals of one":      {condition("!Equals [a]"), "Template error: every Fn::Equals object requires a list of 2 string parameters."},
		"Equals of a map":    {condition("!Equals [{a: b}, c]"), "Template error: every Fn::Equals object requires a list of 2 string parameters."},
		"Equals of a list":   {condition("!Equals [!Split [a, b], c]"), "Template error: every Fn::Equals object requires a list of 2 string parameters."},
		"And of one":         {condition("!And [!Equals [a, b]]"), and},
		"And of eleven":      {condition("!And [" + eleven + "]"), and},
		"And of text":        {condition("!And [a, b]"), and},
		"Or of one":          {condition("!Or [!Equals [a, b]]"), or},
		"Or of eleven":       {condition("!Or [" + eleven + "]"), or},
		"Not of two":         {condition("!Not [!Equals [a, b], !Equals [a, b]]"), not},
		"Not of text":        {condition("!Not [a]"), not},
		"Not without a list": {condition("!Not {Condition: C}"), not},
		"no condition":       {condition("!Not [!Condition D]"), "Template error: unresolved condition dependency D in Condition"},
		"a list of names":    {condition("!Condition [a]"), "Template error: All Conditions must be of type string"},
		"itself":             {condition("!Not [!Condition C]"), "Template format error: Circular dependency between conditions: [C]"},
		"each other":         {"Conditions: {A: !Not [!Condition B], B: !Not [!Condition A]}\n" + gateway, "Template format error: Circular dependency between conditions: [A, B]"},
		"If of no condition": {vpc("!If [Nope, a, b]"), "Template error: unresolved condition dependency Nope in Fn::If"},
		"If of two":          {"Conditions: {A: !Equals [a, b]}\n" + vpc("!If [A, b]"), "Template error: Fn::If requires a list argument with three elements"},
		"If of text":         {vpc("!If a"), "Template error: Fn::If requires a list argument with the first element being a condition"},
		"If of a function":   {vpc("!If [!Equals [a, b], a, b]"), "Template error: Fn::If requires a list argument with the first element being a condition"},
	})
}

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	rule := func(text string) string {
		return "Parameters: {P: {Type: String, Default: a}}\nRules: {R: " + text + "}\n" + gateway
	}
	const wants = "Template format error: Rule R can only have rule-specific intrinsic functions that return true or false"
	checkInvalid(t, map[string][2]string{
		"not an object":   {rule("x"), "Template format error: Any Rules member must be an object."},
		"no assertions":   {rule("{}"), "Template format error: Rule R must contain a list of Assertions."},
		"unknown member":  {rule("{Assert: x}"), "Invalid template rule property 'Assert'"},
		"no assert":       {rule("{Assertions: [{AssertDescription: x}]}"), "Template format error: Every assertion of rule R must contain an Assert member."},
		"text":            {rule("{Assertions: [{Assert: x}]}"), wants},
		"a condition":     {rule("{RuleCondition: !Condition C, Assertions: [{Assert: !Equals [a, a]}]}"), wants},
		"an If":           {rule("{Assertions: [{Assert: !Contains [[a], !If [A, b, c]]}]}"), wants},
		"a resource":      {rule("{Assertions: [{Assert: !Equals [!Ref G, a]}]}"), "Template format error: Unresolved dependencies [G]. Cannot reference resources in the Rules block of the template"},
		"arguments":       {rule("{Assertions: [{Assert: !Contains [a]}]}"), "Template error: every Fn::Contains object of the Rules block has a wrong number or type of parameters"},
		"ValueOf":         {rule("{Assertions: [{Assert: !Equals [{'Fn::ValueOf': [P, VpcId]}, a]}]}"), "Template error: parameters of type String have no attribute VpcId for Fn::ValueOf"},
		"does not hold":   {rule("{Assertions: [{Assert: !Equals [!Ref P, b], AssertDescription: 'P must be b'}]}"), "P must be b"},
		"no description":  {rule("{Assertions: [{Assert: !Not [!Contains [[a], !Ref P]]}]}"), "Template error: an assertion of rule R does not hold"},
		"EachMemberIn":    {rule("{Assertions: [{Assert: {'Fn::EachMemberIn': [[a, b], [a]]}, AssertDescription: x}]}"), "x"},
		"of a type":       {rule("{Assertions: [{Assert: {'Fn::EachMemberEquals': [{'Fn::RefAll': String}, b]}, AssertDescription: y}]}"), "y"},
		"both conditions": {rule("{RuleCondition: !Or [!Equals [a, b], !And [!Equals [a, a], !Equals [b, b]]], Assertions: [{Assert: !Equals [a, b], AssertDescription: z}]}"), "z"},
	})
}

func TestInvalidExtensions(t *testing.T) {
	t.Parallel()
	const failed = "Transform AWS::LanguageExtensions failed with: "
	loop := func(arguments string) string {
		return extended("Parameters: {P: {Type: CommaDelimitedList, Default: 'a,b'}}\nResources:\n" +
			"  V: {Type: AWS::EC2::VPC}\n  Fn::ForEach::L: " + arguments + "\n")
	}
	checkInvalid(t, map[string][2]string{
		"not a list":          {loop("x"), failed + "Fn::ForEach layout is incorrect for Fn::ForEach::L"},
		"two arguments":       {loop("[a, [b]]"), failed + "Fn::ForEach layout is incorrect for Fn::ForEach::L"},
		"identifier":          {loop("[a-b, [c], {}]"), failed + "Fn::ForEach layout is incorrect for Fn::ForEach::L"},
		"body":                {loop("[a, [c], x]"), failed + "Fn::ForEach layout is incorrect for Fn::ForEach::L"},
		"name of a parameter": {loop("[P, [c], {}]"), failed + "Identifier P of Fn::ForEach::L is the name of a parameter"},
		"collection":          {loop("[a, b, {}]"), failed + "Fn::ForEach collection of Fn::ForEach::L must be a list of strings"},
		"lists in collection": {loop("[a, [[b]], {}]"), failed + "Fn::ForEach collection of Fn::ForEach::L must be a list of strings"},
		"of a resource":       {loop("[a, [!Ref V], {'G${a}': {Type: AWS::EC2::VPC}}]"), "Template format error: Unresolved resource dependencies [V] in the Resources block of the template"},
		"the same key":        {loop("[a, !Ref P, {G: {Type: AWS::EC2::VPC}}]"), failed + "Duplicate key 'G' when merging keys to parent object in Fn::ForEach"},
		"key of a resource":   {loop("[a, [V], {'${a}': {Type: AWS::EC2::VPC}}]"), failed + "Duplicate key 'V' when merging keys to parent object in Fn::ForEach"},
		"loop name":           {extended("Resources: {'Fn::ForEach::a-b': [a, [b], {}]}\n"), failed + "Fn::ForEach name of Fn::ForEach::a-b must be alphanumeric"},
		"not alphanumeric":    {loop("[a, [b-c], {'G${a}': {Type: AWS::EC2::VPC}}]"), "Template format error: Resource name Gb-c is non alphanumeric."},
		"the same identifier": {loop("[a, [b], {'Fn::ForEach::M': [a, [c], {'G${a}': {Type: AWS::EC2::VPC}}]}]"), failed + "Identifier a of Fn::ForEach::M is used in a loop around it"},
		"nothing is left":     {extended("Resources: {'Fn::ForEach::L': [a, [], {'G${a}': {Type: AWS::EC2::VPC}}]}\n"), "Template format error: At least one Resources member must be defined."},
		"Length of text":      {extended(vpc("{'Fn::Length': a}")), failed + "Fn::Length layout is incorrect. Fn::Length expects only an array as an input"},
		"ToJsonString of text": {extended(vpc("{'Fn::ToJsonString': a}")), failed + "Fn::ToJsonString layout is incorrect. " +
			"Fn::ToJsonString expects an object or an array as an input"},
		"policy of a resource": {extended("Resources: {V: {Type: AWS::EC2::VPC}, W: {Type: AWS::EC2::VPC, DeletionPolicy: !Ref V}}\n"), "Template format error: Every DeletionPolicy member must be a string."},
		"policy of a word":     {extended("Resources: {V: {Type: AWS::EC2::VPC, DeletionPolicy: !Sub Keep}}\n"), "Template format error: Unrecognized DeletionPolicy Keep for resource V"},
		"no default":           {extended("Mappings: {M: {a: {b: c}}}\n" + vpc("!FindInMap [M, a, x]")), "Template error: Unable to get mapping for M::a::x"},
		"default":              {extended("Mappings: {M: {a: {b: c}}}\n" + vpc("!FindInMap [M, a, x, {Default: y}]")), "Template error: every Fn::FindInMap object requires three parameters, the map name, map key and the attribute for return value"},
		"too many resources":   {extended("Resources:\n  Fn::ForEach::L: [a, [" + strings.TrimSuffix(strings.Repeat("'1', '2', '3', '4', ", 6), ", ") + "], {}]\n" + "  Fn::ForEach::M: [a, !Split [',', '" + strings.TrimSuffix(numbers(501), ",") + "'], {'G${a}': {Type: AWS::EC2::VPC}}]\n"), "Template format error: Number of resources, 501, is greater than maximum allowed, 500"},
	})
}

// numbers returns "0,1,2,".
func numbers(count int) string {
	var b strings.Builder
	for i := range count {
		b.WriteString(itoa(i) + ",")
	}
	return b.String()
}
