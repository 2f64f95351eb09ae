package index

// allFamilies are all families of questions, each behind those that it builds on.
func allFamilies() []Family {
	return []Family{recordsFamily(), producersFamily(), pathsFamily(), citationsFamily(), rundagsFamily(), groupsFamily(), effectsFamily()}
}
