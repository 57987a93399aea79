cairn_SOURCES = 
cairn_FUNC = cairn_Register
cairn_LIBS = 
