set(LABKIT_CORE_SOURCES
    clock.cpp)
set(LABKIT_BINDING_SOURCES
    module.cpp)
