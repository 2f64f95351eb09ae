package index

// AllFamilies are all families of questions, each behind those that it builds on.
func AllFamilies() []Family {
	return []Family{recordsFamily(), producersFamily(), pathsFamily(), citationsFamily(), rundagsFamily(), groupsFamily(), effectsFamily()}
}
